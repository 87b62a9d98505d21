package commands_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
)

// fakeKeyAPI is an API that creates keys. It creates one key per Idempotency-Key.
type fakeKeyAPI struct {
	created   []string          // the consumers' names, in the order of the created keys
	responses map[string]string // the response with the created key, by Idempotency-Key
	requests  int               // the number of requests for a key
	// failures maps the number of a request for a key to the kind of its failure. The first request has the number 1.
	failures map[int]string
}

// These are the kinds of failures.
const (
	failBefore  = "403 before the key is created"
	failAfter   = "403 after the key is created"
	failUnknown = "500 after the key is created"
)

func (f *fakeKeyAPI) handle(w http.ResponseWriter, r *http.Request, body string) {
	parts := strings.Split(r.URL.Path, "/")
	if parts[len(parts)-1] != "keys" {
		respondError(w, http.StatusConflict, "The bucket has a consumer of the name.")
		return
	}
	f.requests++
	failure := f.failures[f.requests]
	if failure == failBefore {
		respondError(w, http.StatusForbidden, "not now")
		return
	}
	idempotencyKey := r.Header.Get("Idempotency-Key")
	resp, exists := f.responses[idempotencyKey]
	if !exists {
		f.created = append(f.created, parts[len(parts)-2])
		resp = fmt.Sprintf(`{"id":"key_%d","key":"gwk_%d"}`, len(f.created), len(f.created))
		f.responses[idempotencyKey] = resp
	}
	if failure == failUnknown {
		respondError(w, http.StatusInternalServerError, "something broke")
		return
	}
	if failure == failAfter {
		respondError(w, http.StatusForbidden, "nobody is told")
		return
	}
	_, _ = io.WriteString(w, resp)
}

func respondError(w http.ResponseWriter, status int, detail string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": detail})
}

// TestInterruptedBulkCreateResumes lets each request fail once, before or after the key is created, and leaves an
// incomplete line in the .done file. A second run must create the remaining keys, and no key twice.
func TestInterruptedBulkCreateResumes(t *testing.T) {
	t.Parallel()
	for failure, code := range map[string]exit.Code{
		failBefore: exit.NotAllowed, failAfter: exit.NotAllowed,
		failUnknown: exit.Failure,
	} {
		for at := 1; at <= 3; at++ {
			k := &fakeKeyAPI{responses: map[string]string{}, failures: map[int]string{at: failure}}
			fx := newFixtureWith(t, k.handle)
			file := filepath.Join(t.TempDir(), "keys.csv")
			writeFile(t, file, "name,description\nada,phone\nada,phone\nbea,\n")
			args := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
			if got := fx.run("", args...); got.code != code || got.out != "" ||
				!strings.Contains(got.err, fmt.Sprintf("line %d: ", at+1)) ||
				!strings.Contains(got.err, fmt.Sprintf("%d of 3 keys are made", at-1)) {
				t.Errorf("create --from with %q at request %d = %+v, want code %d, no output, \"line %d: \" and "+
					"\"%d of 3 keys are made\"", failure, at, got, code, at+1, at-1)
			}
			partial, err := os.OpenFile(file+".done", os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if failure == failUnknown {
				// the line already has its startEntry: append only a part of its keyEntry
				_, _ = partial.WriteString(`,"name":"ada","key":"gwk`)
			} else {
				_, _ = partial.WriteString(`{"line":4,"mark":"`)
			}
			_ = partial.Close()
			if got := fx.run("", append(args, "--jq", ".made")...); got.code != exit.OK || got.out != fmt.Sprintf("%d\n", 4-at) {
				t.Errorf("create --from, repeated after %q at request %d = %+v, want code 0 and %d new keys",
					failure, at, got, 4-at)
			}
			if got := strings.Join(k.created, ","); got != "ada,ada,bea" {
				t.Errorf("create --from with %q at request %d: keys of %s, want ada,ada,bea", failure, at, got)
			}
			done, err := os.ReadFile(file + ".done")
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(strings.TrimSuffix(string(done), "\n"), "\n") {
				var n struct {
					Line      int
					Name, Key string
				}
				if err := json.Unmarshal([]byte(line), &n); err != nil || n.Line != i+2 || n.Key != fmt.Sprintf("gwk_%d", i+1) {
					t.Errorf("create --from with %q at request %d: the .done file has %s, want line %d and the key gwk_%d",
						failure, at, line, i+2, i+1)
				}
			}
			if k.requests != 4 {
				t.Errorf("create --from with %q at request %d: %d requests, want 4", failure, at, k.requests)
			}
		}
	}
}

// TestBulkCreateCompletesPendingLineFirst loses the response of a request, and then changes the file: a line before the
// incomplete line is filled, or the incomplete line is removed. The created key must belong to its own line.
func TestBulkCreateCompletesPendingLineFirst(t *testing.T) {
	t.Parallel()
	k := &fakeKeyAPI{responses: map[string]string{}, failures: map[int]string{1: failUnknown}}
	fx := newFixtureWith(t, k.handle)
	file := filepath.Join(t.TempDir(), "keys.csv")
	args := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
	writeFile(t, file, "name\n\nbea\ncid\n")
	if got := fx.run("", args...); got.code != exit.Failure {
		t.Fatalf("create --from with a lost response = %+v, want code %d", got, exit.Failure)
	}
	writeFile(t, file, "name\nada\n\ncid\n")
	if got := fx.run("", args...); got.code != exit.Usage || !strings.Contains(got.err, "line 3 is missing") {
		t.Errorf("create --from without the incomplete line = %+v, want code %d and \"line 3 is missing\"", got, exit.Usage)
	}
	writeFile(t, file, "name\nada\nbea\ncid\n")
	if got := fx.run("", args...); got.code != exit.OK {
		t.Errorf("create --from with one more line = %+v, want code %d", got, exit.OK)
	}
	if got := strings.Join(k.created, ","); got != "bea,ada,cid" {
		t.Errorf("consumers of the created keys = %s, want bea,ada,cid", got)
	}
	done, err := os.ReadFile(file + ".done")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"line":3,`, `{"line":2,`, `{"line":4,`} {
		line, rest, _ := strings.Cut(string(done), "\n")
		if done = []byte(rest); !strings.HasPrefix(line, want) || !strings.Contains(line, `"key":"gwk_`) {
			t.Errorf("line of the .done file = %s, want %s and a key", line, want)
		}
	}
}

// TestBulkCreateRecordsEachKeyBeforeNextRequest checks that each key is in the .done file before the next request. So a
// process that is killed loses at most the key that it is requesting.
func TestBulkCreateRecordsEachKeyBeforeNextRequest(t *testing.T) {
	t.Parallel()
	k := &fakeKeyAPI{responses: map[string]string{}}
	file := filepath.Join(t.TempDir(), "keys.csv")
	writeFile(t, file, "name\nada\nbea\ncid\n")
	fx := newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if done, err := os.ReadFile(file + ".done"); err != nil || strings.Count(string(done), "\n") != len(k.created) {
			t.Errorf(".done file = %q, %v when %d keys exist, want a line for each", done, err, len(k.created))
		}
		k.handle(w, r, body)
	})
	if got := fx.run("", "consumer", "key", "create", "--bucket", "b", "--from", file); got.code != exit.OK ||
		len(k.created) != 3 {
		t.Errorf("create --from with 3 lines = %+v with the keys %v, want code 0 and 3 keys", got, k.created)
	}
}

// TestBulkCreateDoesNotRepeatRequestAfterOneDay checks that a request with an unknown outcome is not repeated after a
// day. The API no longer knows the Idempotency-Key and would create a second key, which nobody notices. The command
// assumes that a refused request (4xx) has created no key, so it can repeat the request at any time.
func TestBulkCreateDoesNotRepeatRequestAfterOneDay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		failure string
		elapsed time.Duration
		code    exit.Code
	}{
		{failUnknown, 22 * time.Hour, exit.OK},
		{failUnknown, 24 * time.Hour, exit.Conflict},
		{failBefore, 24 * time.Hour, exit.OK},
	} {
		k := &fakeKeyAPI{responses: map[string]string{}, failures: map[int]string{2: tt.failure}}
		fx, at := newFixtureWith(t, k.handle), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		fx.now = func() time.Time { return at }
		file := filepath.Join(t.TempDir(), "keys.csv")
		writeFile(t, file, "name\nada\nbea\ncid\n")
		args := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
		if got := fx.run("", args...); got.code == exit.OK {
			t.Errorf("%v: create --from with a failing request = %+v, want an error", tt, got)
		}
		at = at.Add(time.Hour)
		k.failures = map[int]string{3: failBefore} // a refusal of this request does not show the outcome of the earlier one
		if got := fx.run("", args...); got.code != exit.NotAllowed {
			t.Errorf("%v: create --from after an hour = %+v, want code %d", tt, got, exit.NotAllowed)
		}
		at, k.failures = at.Add(tt.elapsed-time.Hour), nil
		got := fx.run("", args...)
		if got.code != tt.code || tt.code != exit.OK &&
			(got.out != "" || !strings.Contains(got.err, "line 3: its key was asked for at 2030-01-01T00:00:00Z") ||
				!strings.Contains(got.err, file+".done")) {
			t.Errorf("%v: create --from after %s = %+v, want code %d; with code %d also no output, "+
				"\"line 3: its key was asked for at 2030-01-01T00:00:00Z\" and the name of the .done file",
				tt, tt.elapsed, got, tt.code, exit.Conflict)
		}
		if want := map[exit.Code]string{exit.OK: "ada,bea,cid", exit.Conflict: "ada,bea"}[tt.code]; strings.Join(k.created,
			",") != want {
			t.Errorf("%v: keys of %v, want %s", tt, k.created, want)
		}
	}
}

// TestBulkCreateLocksFile checks that only one process at a time uses an input file: two processes would overwrite each
// other's .done file. A later run must find all keys created. A missing file and stdin must be refused.
func TestBulkCreateLocksFile(t *testing.T) {
	t.Parallel()
	k := &fakeKeyAPI{responses: map[string]string{}}
	file := filepath.Join(t.TempDir(), "keys.csv")
	writeFile(t, file, "name\nada\nbea\n")
	args := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
	other := newFixtureWith(t, k.handle)
	var second []result
	fx := newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, body string) {
		second = append(second, other.run("", args...))
		k.handle(w, r, body)
	})
	if got := fx.run("", args...); got.code != exit.OK || len(k.created) != 2 {
		t.Errorf("create --from = %+v with the keys %v, want code 0 and 2 keys", got, k.created)
	}
	for _, got := range second {
		if got.code != exit.Usage || !strings.Contains(got.err, "another process") || got.out != "" {
			t.Errorf("a second create --from at the same time = %+v, want code %d and \"another process\"", got, exit.Usage)
		}
	}
	if len(second) == 0 || len(other.requests) > 0 {
		t.Errorf("%d runs of a second create --from with the requests %q, want at least one run without requests",
			len(second), other.requests)
	}
	if got := fx.run("", append(args, "--jq", ".madeBefore")...); got.out != "2\n" {
		t.Errorf("create --from --jq .madeBefore = %+v, want 2", got)
	}
	missing := append(args[:len(args)-1:len(args)-1], filepath.Join(t.TempDir(), "missing.csv"))
	for _, invalid := range [][]string{missing, append(args[:len(args)-1:len(args)-1], "-")} {
		if got := fx.run("", invalid...); got.code != exit.Usage || got.out != "" {
			t.Errorf("gatewright %v = %+v, want code %d and no output", invalid, got, exit.Usage)
		}
	}
	if _, err := os.Stat(missing[len(missing)-1]); err == nil {
		t.Error("create --from a missing file creates the file, want no file")
	}
}

// TestBulkCreateRefusesChangedFile checks that no more keys are created if the file has changed: its lines would no
// longer match the recorded keys. The same holds if other users can read the .done file, which has the keys.
func TestBulkCreateRefusesChangedFile(t *testing.T) {
	t.Parallel()
	k := &fakeKeyAPI{responses: map[string]string{}, failures: map[int]string{3: failBefore}}
	fx := newFixtureWith(t, k.handle)
	file := filepath.Join(t.TempDir(), "keys.csv")
	args := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
	writeFile(t, file, "name\nada\nbea\ncid\n")
	if got := fx.run("", args...); got.code != exit.NotAllowed {
		t.Fatalf("create --from with a refused third request = %+v, want code %d", got, exit.NotAllowed)
	}
	writeFile(t, file, "name\nada\ndan\ncid\n")
	if got := fx.run("", args...); got.code != exit.Usage || !strings.Contains(got.err, "line 3") ||
		strings.Join(k.created, ",") != "ada,bea" {
		t.Errorf("create --from with a changed line 3 = %+v with the keys %v, want code %d, \"line 3\", and the keys ada,bea",
			got, k.created, exit.Usage)
	}
	if err := os.Chmod(file+".done", 0o640); err != nil {
		t.Fatal(err)
	}
	writeFile(t, file, "name\nada\nbea\ncid\n")
	if got := fx.run("", args...); os.PathSeparator == '/' &&
		(got.code != exit.Usage || !strings.Contains(got.err, "chmod 600") || len(k.created) != 2) {
		t.Errorf("create --from with a .done file that others can read = %+v with the keys %v, want code %d, "+
			"\"chmod 600\" and 2 keys", got, k.created, exit.Usage)
	}
}

// TestBulkCreateValidatesFileFirst checks that an error in any line is reported before the first key is created.
func TestBulkCreateValidatesFileFirst(t *testing.T) {
	t.Parallel()
	for text, wantText := range map[string]string{
		"name,expiresOn\nada,\nbea,tomorrow\n": "line 3: expiresOn", "name\nada\nbea,more\n": "line 3",
		"name,name\nada,bea\n": "each once", "name,secret\nada,s3cr3t\n": "names columns",
		"name,description\nada,d\n,s3cr3t\n": "line 3: it has no name", "": "no line",
	} {
		k := &fakeKeyAPI{responses: map[string]string{}}
		fx := newFixtureWith(t, k.handle)
		file := filepath.Join(t.TempDir(), "keys.csv")
		writeFile(t, file, text)
		got := fx.run("", "consumer", "key", "create", "--bucket", "b", "--from", file)
		if got.code != exit.Invalid || got.out != "" || len(k.created) > 0 {
			t.Errorf("create --from with %q = %+v with the keys %v, want code %d, no output and no key",
				text, got, k.created, exit.Invalid)
		}
		if !strings.Contains(got.err, wantText) || strings.Contains(got.err, "s3cr3t") {
			t.Errorf("create --from with %q: stderr = %q, want %q without content of the file", text, got.err, wantText)
		}
	}
}

// TestIdempotencyKeyDependsOnBucket runs the same file twice for each of two buckets, without a .done file. The second
// run for a bucket must create no key, and each bucket must get a key of its own.
func TestIdempotencyKeyDependsOnBucket(t *testing.T) {
	t.Parallel()
	k := &fakeKeyAPI{responses: map[string]string{}}
	fx := newFixtureWith(t, k.handle)
	file := filepath.Join(t.TempDir(), "keys.csv")
	writeFile(t, file, "name\nada\n")
	for i, bucket := range []string{"b", "c"} {
		for range 2 {
			_ = os.Remove(file + ".done")
			if got := fx.run("", "consumer", "key", "create", "--bucket", bucket, "--from", file); got.code != exit.OK {
				t.Errorf("create --bucket %s = %+v, want code 0", bucket, got)
			}
		}
		if len(k.created) != i+1 {
			t.Errorf("after two runs for bucket %s: %d keys, want %d", bucket, len(k.created), i+1)
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestDoneFileMustBeRegularFile checks that no key is created if the path of the .done file is a folder or a link to a
// device.
func TestDoneFileMustBeRegularFile(t *testing.T) {
	t.Parallel()
	for name, create := range map[string]func(path string) error{
		"a folder":           func(path string) error { return os.Mkdir(path, 0o700) },
		"a link to a device": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		k := &fakeKeyAPI{responses: map[string]string{}}
		fx := newFixtureWith(t, k.handle)
		file := filepath.Join(t.TempDir(), "keys.csv")
		writeFile(t, file, "name\nada\n")
		if err := create(file + ".done"); err != nil {
			t.Fatal(err)
		}
		if got := fx.run("", "consumer", "key", "create", "--bucket", "b", "--from", file); got.code != exit.Usage ||
			!strings.Contains(got.err, ".done cannot be opened: it is no ordinary file") || len(k.created) != 0 {
			t.Errorf("create --from with %s as .done file = %+v with the keys %v, want code %d, the reason and no key",
				name, got, k.created, exit.Usage)
		}
	}
}

// TestUnrecognizedDoneFileIsKept checks that an existing file that the command has not written stays unchanged.
func TestUnrecognizedDoneFileIsKept(t *testing.T) {
	t.Parallel()
	for _, existing := range []string{"the only copy", "the only copy\n", "one\ntwo", `{"line":0}` + "\n"} {
		k := &fakeKeyAPI{responses: map[string]string{}}
		fx := newFixtureWith(t, k.handle)
		file := filepath.Join(t.TempDir(), "keys.csv")
		writeFile(t, file, "name\nada\n")
		writeFile(t, file+".done", existing)
		if got := fx.run("", "consumer", "key", "create", "--bucket", "b", "--from", file); got.code != exit.Usage ||
			got.out != "" || !strings.Contains(got.err, "move it away") {
			t.Errorf("create --from with the .done file %q = %+v, want code %d and \"move it away\"", existing, got, exit.Usage)
		}
		if after, err := os.ReadFile(file + ".done"); err != nil || string(after) != existing {
			t.Errorf("the .done file %q is now %q, %v, want no change", existing, after, err)
		}
		if len(k.created) != 0 {
			t.Errorf("create --from with the .done file %q creates keys of %v, want none", existing, k.created)
		}
	}
}
