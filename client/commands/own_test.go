package commands_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
)

func TestVerifyWaitsForTheRecord(t *testing.T) {
	t.Parallel()
	asked := 0
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if asked++; asked%4 != 0 {
			refuse(w, http.StatusConflict, "no TXT record yet")
			return
		}
		_, _ = io.WriteString(w, `{"hostname":"api.example.com","status":"active"}`)
	})
	l.waits = func(context.Context, time.Duration) error { return nil }
	if got := l.run("", "domain", "verify", "api.example.com"); got.code != exit.Conflict || asked != 1 {
		t.Errorf("without --wait: %+v after %d", got, asked)
	}
	asked = 0
	got := l.run("", "domain", "verify", "api.example.com", "--wait")
	if got.code != exit.OK || asked != 4 || !strings.Contains(got.out, "active") || strings.Count(got.err, "no TXT record yet") != 1 {
		t.Errorf("with --wait: %+v after %d", got, asked)
	}
}

// TestFollowedLogLosesAndRepeatsNoRecord has records come while the log is followed, of which one is late and some are more than
// a page.
func TestFollowedLogLosesAndRepeatsNoRecord(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var log []string // the newest first
	add := func(name string, at time.Duration) {
		record := fmt.Sprintf(`{"action":%q,"timestamp":%q}`, name, start.Add(at).Format(time.RFC3339Nano))
		i := 0
		for i < len(log) && stamp(t, log[i]).After(start.Add(at)) {
			i++
		}
		log = append(log[:i], append([]string{record}, log[i:]...)...)
	}
	for i := range 30 {
		add(fmt.Sprint("old-", i), time.Duration(i-30)*time.Minute)
	}
	const most = 7
	l := newLineOf(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		from := 0
		if after := r.FormValue("after"); after != "" {
			for from < len(log) && log[from] != after {
				from++
			}
			from++
		}
		to, next := min(from+most, len(log)), ""
		if to < len(log) {
			next = log[to-1]
		}
		text, _ := json.Marshal(next)
		_, _ = fmt.Fprintf(w, `{"data":[%s],"next":%s}`, strings.Join(log[from:to], ","), text)
	})
	polls := 0
	l.waits = func(context.Context, time.Duration) error {
		switch polls++; polls {
		case 1:
			add("new-0", 10*time.Second)
		case 2:
			add("late", 5*time.Second)
			for i := 1; i <= 20; i++ {
				add(fmt.Sprint("new-", i), time.Duration(10+i)*time.Second)
			}
		case 3:
			add("new-21", 3*time.Minute)
		case 5:
			return exit.With(exit.Interrupted, errors.New("enough"))
		}
		return nil
	}
	got := l.run("", "log", "list", "--follow", "--output", "json")
	var names []string
	for line := range strings.Lines(got.out) {
		var of struct{ Action string }
		if err := json.Unmarshal([]byte(line), &of); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		names = append(names, of.Action)
	}
	var want []string
	for i := 10; i < 30; i++ {
		want = append(want, fmt.Sprint("old-", i))
	}
	want = append(want, "new-0", "late")
	for i := 1; i <= 21; i++ {
		want = append(want, fmt.Sprint("new-", i))
	}
	if a, b := strings.Join(names, " "), strings.Join(want, " "); a != b || got.code != exit.Interrupted {
		t.Errorf("it ends with %d, and writes\n%s\nwant\n%s", got.code, a, b)
	}
}

// TestFollowedLogBeginsWithTheNewest twenty, of any number that have come lately, some of them at one moment.
func TestFollowedLogBeginsWithTheNewest(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var log, want []string
	for i := range 30 {
		record := fmt.Sprintf(`{"action":"a-%d","timestamp":%q}`, i, start.Add(time.Duration(i/3)*time.Second).Format(time.RFC3339Nano))
		log = append([]string{record}, log...)
		if i >= 10 {
			want = append(want, fmt.Sprintf("a-%d", i))
		}
	}
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = fmt.Fprintf(w, `{"data":[%s],"next":null}`, strings.Join(log, ","))
	})
	polls := 0
	l.waits = func(context.Context, time.Duration) error {
		if polls++; polls > 3 {
			return exit.With(exit.Interrupted, errors.New("enough"))
		}
		return nil
	}
	got := l.run("", "log", "list", "--follow", "--jq", ".action")
	if got.code != exit.Interrupted || got.out != strings.Join(want, "\n")+"\n" {
		t.Errorf("%+v, want %v", got, want)
	}
}

func stamp(t *testing.T, record string) time.Time {
	t.Helper()
	var of struct{ Timestamp time.Time }
	if err := json.Unmarshal([]byte(record), &of); err != nil {
		t.Fatal(err)
	}
	return of.Timestamp
}

// TestDeleteTellsWhatGoes counts what is below, and goes without the numbers that the key may not ask for.
func TestDeleteTellsWhatGoes(t *testing.T) {
	t.Parallel()
	consumers := map[string]int{"shop-production": 1, "shop-preview": 2, "shop-working-copy": 3}
	for _, c := range []struct {
		deployments string
		status      int
		unseen      string
		says        string
	}{
		{`{"data":[{}],"total":3}`, 200, "", "the project shop is deleted, with 3 deployments and 1 certificate and 6 consumers and all its variables\n"},
		{`{}`, 403, "", "the project shop is deleted, with all its deployments and 1 certificate and 6 consumers and all its variables\n"},
		// A key of an environment sees no bucket of the others, whose consumers go as well.
		{`{"data":[],"total":0}`, 200, "-production", "the project shop is deleted, with 0 deployments and 1 certificate and all its consumers and all its variables\n"},
	} {
		polls := 0
		l := newLineOf(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/deployments") && c.status != http.StatusOK:
				refuse(w, c.status, "the scope is missing")
			case strings.HasSuffix(r.URL.Path, "/deployments"):
				_, _ = io.WriteString(w, c.deployments)
			case strings.HasSuffix(r.URL.Path, "/mtls-certificates"):
				_, _ = io.WriteString(w, `{"total":1}`)
			case c.unseen != "" && strings.HasSuffix(r.URL.Path, c.unseen+"/consumers"):
				refuse(w, http.StatusNotFound, "there is no such bucket")
			case strings.HasSuffix(r.URL.Path, "/consumers"):
				_, _ = fmt.Fprintf(w, `{"total":%d}`, consumers[path.Base(path.Dir(r.URL.Path))])
			case polls < 2:
				polls++
				_, _ = io.WriteString(w, `{"id":"op_1","status":"in-progress"}`)
			default:
				_, _ = io.WriteString(w, `{"id":"op_1","status":"success"}`)
			}
		})
		l.waits = func(context.Context, time.Duration) error { return nil }
		if got := l.run("", "project", "delete", "shop"); got.code != exit.Usage || len(l.asked) > 0 {
			t.Errorf("without --yes: %+v, asked %q", got, l.asked)
		}
		if got := l.run("", "project", "delete", "shop", "--yes"); got.code != exit.OK || !strings.Contains(got.err, c.says) || got.out != "" {
			t.Errorf("%+v", got)
		}
		if last := l.asked[len(l.asked)-1]; !strings.HasPrefix(last, "GET /v1/accounts/acme/projects/shop/operations/op_1") {
			t.Errorf("its end is not waited for: %q", l.asked)
		}
	}
}

func TestOperationThatFailsIsAFailure(t *testing.T) {
	t.Parallel()
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"id":"op_1","status":"error","message":"It has stopped half way."}`)
	})
	if got := l.run("", "project", "delete", "shop", "--yes"); got.code != exit.Failure || !strings.Contains(got.err, "half way") {
		t.Errorf("%+v", got)
	}
}

// TestNewSecretGoesIntoItsFileAlone is about --out: the file is its owner's alone, is never written over, and is not left behind
// by a command that fails.
func TestNewSecretGoesIntoItsFileAlone(t *testing.T) {
	t.Parallel()
	refused := false
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if refused {
			refuse(w, http.StatusForbidden, "not now")
			return
		}
		_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","name":"office","token":"a-token-that-nobody-else-may-see"}`)
	})
	file := filepath.Join(t.TempDir(), "token")
	words := []string{"tunnel", "create", "office", "--out", file, "--output", "json"}
	got := l.run("", words...)
	if got.code != exit.OK || strings.Contains(got.out+got.err, "nobody-else") || !strings.Contains(got.out, "****") {
		t.Errorf("%+v", got)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "a-token-that-nobody-else-may-see\n" {
		t.Errorf("the file has %q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	l.asked = nil
	if got := l.run("", words...); got.code != exit.Usage || !strings.Contains(got.err, "not written over") {
		t.Errorf("again: %+v", got)
	}
	for _, asked := range l.asked {
		if strings.HasPrefix(asked, http.MethodPost) {
			t.Errorf("a secret is made for a file that is there: %s", asked)
		}
	}
	refused = true
	if got := l.run("", "tunnel", "create", "office", "--out", file+"2"); got.code != exit.NotAllowed {
		t.Errorf("refused: %+v", got)
	}
	if _, err := os.Stat(file + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file is left: %v", err)
	}
}
