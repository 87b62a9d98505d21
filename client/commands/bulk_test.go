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

// keyring is an API that makes keys, and makes none twice for one Idempotency-Key.
type keyring struct {
	made  []string // consumers, in the order of their keys
	tried map[string]string
	// fails says which requests of keys have no good answer, from 1, and in which way.
	asked int
	fails map[int]string
}

// The ways to fail.
const (
	beforeIt = "before" // nothing was made
	afterIt  = "after"  // the key is made, and nobody is told
	lostIt   = "lost"   // the same, and the answer does not say that nothing was made
)

func (k *keyring) answer(w http.ResponseWriter, r *http.Request, body string) {
	parts := strings.Split(r.URL.Path, "/")
	if parts[len(parts)-1] != "keys" {
		refuse(w, http.StatusConflict, "The bucket has a consumer of the name.")
		return
	}
	k.asked++
	way := k.fails[k.asked]
	if way == beforeIt {
		refuse(w, http.StatusForbidden, "not now")
		return
	}
	try := r.Header.Get("Idempotency-Key")
	answer, before := k.tried[try]
	if !before {
		k.made = append(k.made, parts[len(parts)-2])
		answer = fmt.Sprintf(`{"id":"key_%d","key":"gwk_%d"}`, len(k.made), len(k.made))
		k.tried[try] = answer
	}
	if way == lostIt {
		refuse(w, http.StatusInternalServerError, "something broke")
		return
	}
	if way == afterIt {
		refuse(w, http.StatusForbidden, "nobody is told")
		return
	}
	_, _ = io.WriteString(w, answer)
}

func refuse(w http.ResponseWriter, status int, why string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": why})
}

// TestFileOfKeysThatWasCutOffGoesOn has each of its requests fail once, before the key is made and after it, and what was
// written of the line be torn.
func TestFileOfKeysThatWasCutOffGoesOn(t *testing.T) {
	t.Parallel()
	for way, code := range map[string]exit.Code{beforeIt: exit.NotAllowed, afterIt: exit.NotAllowed, lostIt: exit.Failure} {
		for at := 1; at <= 3; at++ {
			k := &keyring{tried: map[string]string{}, fails: map[int]string{at: way}}
			l := newLineOf(t, k.answer)
			file := filepath.Join(t.TempDir(), "keys.csv")
			write(t, file, "name,description\nada,phone\nada,phone\nbea,\n")
			words := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
			if got := l.run("", words...); got.code != code || got.out != "" || !strings.Contains(got.err, fmt.Sprintf("line %d: ", at+1)) || !strings.Contains(got.err, fmt.Sprintf("%d of 3 keys are made", at-1)) {
				t.Errorf("%s %d: %+v", way, at, got)
			}
			torn, err := os.OpenFile(file+".done", os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if way == lostIt {
				_, _ = torn.WriteString(`,"name":"ada","key":"gwk`) // the line is begun already
			} else {
				_, _ = torn.WriteString(`{"line":4,"mark":"`)
			}
			_ = torn.Close()
			if got := l.run("", append(words, "--jq", ".made")...); got.code != exit.OK || got.out != fmt.Sprintf("%d\n", 4-at) {
				t.Errorf("%s %d again: %+v", way, at, got)
			}
			if got := strings.Join(k.made, ","); got != "ada,ada,bea" {
				t.Errorf("%s %d: keys are made of %s", way, at, got)
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
					t.Errorf("%s %d: the file of what was made has %s", way, at, line)
				}
			}
			if k.asked != 4 {
				t.Errorf("%s %d: keys are asked for %d times", way, at, k.asked)
			}
		}
	}
}

// TestEachKeyIsNotedBeforeTheNextIsAskedFor: a process that is killed at any moment has kept all keys but the one that it was asking for.
func TestEachKeyIsNotedBeforeTheNextIsAskedFor(t *testing.T) {
	t.Parallel()
	k := &keyring{tried: map[string]string{}}
	file := filepath.Join(t.TempDir(), "keys.csv")
	write(t, file, "name\nada\nbea\ncid\n")
	l := newLineOf(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if done, err := os.ReadFile(file + ".done"); err != nil || strings.Count(string(done), "\n") != len(k.made) {
			t.Errorf("%d keys are made, and noted is %q, %v", len(k.made), done, err)
		}
		k.answer(w, r, body)
	})
	if got := l.run("", "consumer", "key", "create", "--bucket", "b", "--from", file); got.code != exit.OK || len(k.made) != 3 {
		t.Errorf("%+v, of %v", got, k.made)
	}
}

// TestKeyThatWasBegunADayAgoIsNotMadeAgain: the API does not know its Idempotency-Key any more, and would make another one beside the first, which
// nobody has and nobody misses. One that was refused has made none, and a day changes nothing about it.
func TestKeyThatWasBegunADayAgoIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		way   string
		later time.Duration
		code  exit.Code
	}{
		{lostIt, 22 * time.Hour, exit.OK},
		{lostIt, 24 * time.Hour, exit.Conflict},
		{beforeIt, 24 * time.Hour, exit.OK},
	} {
		k := &keyring{tried: map[string]string{}, fails: map[int]string{2: tt.way}}
		l, at := newLineOf(t, k.answer), time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		l.now = func() time.Time { return at }
		file := filepath.Join(t.TempDir(), "keys.csv")
		write(t, file, "name\nada\nbea\ncid\n")
		words := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
		if got := l.run("", words...); got.code == exit.OK {
			t.Errorf("%v: %+v", tt, got)
		}
		at = at.Add(time.Hour)
		k.fails = map[int]string{3: beforeIt} // a refusal in between says nothing of the time before
		if got := l.run("", words...); got.code != exit.NotAllowed {
			t.Errorf("%v: %+v", tt, got)
		}
		at, k.fails = at.Add(tt.later-time.Hour), nil
		got := l.run("", words...)
		if got.code != tt.code || tt.code != exit.OK && (got.out != "" || !strings.Contains(got.err, "line 3: its key was asked for at 2030-01-01T00:00:00Z") || !strings.Contains(got.err, file+".done")) {
			t.Errorf("%v: %+v", tt, got)
		}
		if want := map[exit.Code]string{exit.OK: "ada,bea,cid", exit.Conflict: "ada,bea"}[tt.code]; strings.Join(k.made, ",") != want {
			t.Errorf("%v: keys are made of %v, want %s", tt, k.made, want)
		}
	}
}

// TestFileOfKeysIsWorkedOffByOne at a time: two would write what they have made over one another's.
func TestFileOfKeysIsWorkedOffByOne(t *testing.T) {
	t.Parallel()
	k := &keyring{tried: map[string]string{}}
	file := filepath.Join(t.TempDir(), "keys.csv")
	write(t, file, "name\nada\nbea\n")
	words := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
	other := newLineOf(t, k.answer)
	var second []ran
	l := newLineOf(t, func(w http.ResponseWriter, r *http.Request, body string) {
		second = append(second, other.run("", words...))
		k.answer(w, r, body)
	})
	if got := l.run("", words...); got.code != exit.OK || len(k.made) != 2 {
		t.Errorf("%+v, of %v", got, k.made)
	}
	for _, got := range second {
		if got.code != exit.Usage || !strings.Contains(got.err, "another process") || got.out != "" {
			t.Errorf("the second: %+v", got)
		}
	}
	if len(second) == 0 || len(other.asked) > 0 {
		t.Errorf("the second has run %d times, and asked for %q", len(second), other.asked)
	}
	if got := l.run("", append(words, "--jq", ".madeBefore")...); got.out != "2\n" {
		t.Errorf("afterwards: %+v", got)
	}
	missing := append(words[:len(words)-1:len(words)-1], filepath.Join(t.TempDir(), "missing.csv"))
	for _, wrong := range [][]string{missing, append(words[:len(words)-1:len(words)-1], "-")} {
		if got := l.run("", wrong...); got.code != exit.Usage || got.out != "" {
			t.Errorf("%v: %+v", wrong, got)
		}
	}
	if _, err := os.Stat(missing[len(missing)-1]); err == nil {
		t.Error("a file that was not there is made")
	}
}

// TestFileOfKeysIsTheOneThatWasBegun, or nothing more is made: of lines that are others by now nobody could say whose keys are noted.
func TestFileOfKeysIsTheOneThatWasBegun(t *testing.T) {
	t.Parallel()
	k := &keyring{tried: map[string]string{}, fails: map[int]string{3: beforeIt}}
	l := newLineOf(t, k.answer)
	file := filepath.Join(t.TempDir(), "keys.csv")
	words := []string{"consumer", "key", "create", "--bucket", "b", "--from", file}
	write(t, file, "name\nada\nbea\ncid\n")
	if got := l.run("", words...); got.code != exit.NotAllowed {
		t.Fatalf("%+v", got)
	}
	write(t, file, "name\nada\ndan\ncid\n")
	if got := l.run("", words...); got.code != exit.Usage || !strings.Contains(got.err, "line 3") || strings.Join(k.made, ",") != "ada,bea" {
		t.Errorf("another line: %+v, of %v", got, k.made)
	}
	if err := os.Chmod(file+".done", 0o640); err != nil {
		t.Fatal(err)
	}
	write(t, file, "name\nada\nbea\ncid\n")
	if got := l.run("", words...); os.PathSeparator == '/' && (got.code != exit.Usage || !strings.Contains(got.err, "chmod 600") || len(k.made) != 2) {
		t.Errorf("keys that others read: %+v, of %v", got, k.made)
	}
}

// TestFileOfKeysIsReadBeforeAnyIsMade: what is wrong in its last line is told before there is a key of its first.
func TestFileOfKeysIsReadBeforeAnyIsMade(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"name,expiresOn\nada,\nbea,tomorrow\n": "line 3: expiresOn", "name\nada\nbea,more\n": "line 3", "name,name\nada,bea\n": "each once", "name,secret\nada,s3cr3t\n": "names columns", "name,description\nada,d\n,s3cr3t\n": "line 3: it has no name", "": "no line",
	} {
		k := &keyring{tried: map[string]string{}}
		l := newLineOf(t, k.answer)
		file := filepath.Join(t.TempDir(), "keys.csv")
		write(t, file, text)
		if got := l.run("", "consumer", "key", "create", "--bucket", "b", "--from", file); got.code != exit.Invalid || got.out != "" || !strings.Contains(got.err, says) || strings.Contains(got.err, "s3cr3t") || len(k.made) > 0 {
			t.Errorf("%q: %+v, of %v", text, got, k.made)
		}
	}
}

// TestSameLineOfAnotherBucketIsAnotherKey is about what an Idempotency-Key is made of.
func TestSameLineOfAnotherBucketIsAnotherKey(t *testing.T) {
	t.Parallel()
	k := &keyring{tried: map[string]string{}}
	l := newLineOf(t, k.answer)
	for i, bucket := range []string{"b", "c"} {
		file := filepath.Join(t.TempDir(), "keys.csv")
		write(t, file, "name\nada\n")
		for _, again := range []string{bucket, bucket} {
			_ = os.Remove(file + ".done")
			if got := l.run("", "consumer", "key", "create", "--bucket", again, "--from", file); got.code != exit.OK {
				t.Errorf("%s: %+v", again, got)
			}
		}
		if len(k.made) != i+1 {
			t.Errorf("of %s %d keys are made", bucket, len(k.made))
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestKeysThatAreMadeAreKeptInAFileAlone: where a folder is, or what leads to a device, nothing is made.
func TestKeysThatAreMadeAreKeptInAFileAlone(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(path string) error{
		"a folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"a device": func(path string) error { return os.Symlink(os.DevNull, path) },
	} {
		k := &keyring{tried: map[string]string{}}
		l := newLineOf(t, k.answer)
		file := filepath.Join(t.TempDir(), "keys.csv")
		write(t, file, "name\nada\n")
		if err := take(file + ".done"); err != nil {
			t.Fatal(err)
		}
		if got := l.run("", "consumer", "key", "create", "--bucket", "b", "--from", file); got.code != exit.Usage || !strings.Contains(got.err, ".done cannot be opened: it is no ordinary file") || len(k.made) != 0 {
			t.Errorf("%s: %+v, and keys are made of %v", name, got, k.made)
		}
	}
}

// TestFileOfSomebodyElseIsNotCut is about what is where the file of what was made would be.
func TestFileOfSomebodyElseIsNotCut(t *testing.T) {
	t.Parallel()
	for _, theirs := range []string{"the only copy", "the only copy\n", "one\ntwo", `{"line":0}` + "\n"} {
		k := &keyring{tried: map[string]string{}}
		l := newLineOf(t, k.answer)
		file := filepath.Join(t.TempDir(), "keys.csv")
		write(t, file, "name\nada\n")
		write(t, file+".done", theirs)
		if got := l.run("", "consumer", "key", "create", "--bucket", "b", "--from", file); got.code != exit.Usage || got.out != "" || !strings.Contains(got.err, "move it away") {
			t.Errorf("%q: %+v", theirs, got)
		}
		if now, err := os.ReadFile(file + ".done"); err != nil || string(now) != theirs {
			t.Errorf("%q has become %q, %v", theirs, now, err)
		}
		if len(k.made) != 0 {
			t.Errorf("%q: keys are made of %v", theirs, k.made)
		}
	}
}
