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

func TestVerifyWaitsForDNSRecord(t *testing.T) {
	t.Parallel()
	requests := 0
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if requests++; requests%4 != 0 {
			respondError(w, http.StatusConflict, "no TXT record yet")
			return
		}
		_, _ = io.WriteString(w, `{"hostname":"api.example.com","status":"active"}`)
	})
	fx.onSleep = func(context.Context, time.Duration) error { return nil }
	if got := fx.run("", "domain", "verify", "api.example.com"); got.code != exit.Conflict || requests != 1 {
		t.Errorf("domain verify = %+v after %d requests, want code %d after 1", got, requests, exit.Conflict)
	}
	requests = 0
	got := fx.run("", "domain", "verify", "api.example.com", "--wait")
	if got.code != exit.OK || requests != 4 || !strings.Contains(got.out, "active") ||
		strings.Count(got.err, "no TXT record yet") != 1 {
		t.Errorf("domain verify --wait = %+v after %d requests, want code 0, \"active\" and one notice after 4",
			got, requests)
	}
}

// TestFollowedLogShowsEachRecordOnce adds records while the log is followed. One record is late, and some polls have
// more records than a page. Each record must be shown once.
func TestFollowedLogShowsEachRecordOnce(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var log []string // newest first
	add := func(name string, offset time.Duration) {
		record := fmt.Sprintf(`{"action":%q,"timestamp":%q}`, name, start.Add(offset).Format(time.RFC3339Nano))
		i := 0
		for i < len(log) && recordTime(t, log[i]).After(start.Add(offset)) {
			i++
		}
		log = append(log[:i], append([]string{record}, log[i:]...)...)
	}
	for i := range 30 {
		add(fmt.Sprint("old-", i), time.Duration(i-30)*time.Minute)
	}
	const pageSize = 7
	fx := newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		from := 0
		if after := r.FormValue("after"); after != "" {
			for from < len(log) && log[from] != after {
				from++
			}
			from++
		}
		to, next := min(from+pageSize, len(log)), ""
		if to < len(log) {
			next = log[to-1]
		}
		text, _ := json.Marshal(next)
		_, _ = fmt.Fprintf(w, `{"data":[%s],"next":%s}`, strings.Join(log[from:to], ","), text)
	})
	polls := 0
	fx.onSleep = func(context.Context, time.Duration) error {
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
			return exit.WithCode(exit.Interrupted, errors.New("enough"))
		}
		return nil
	}
	got := fx.run("", "log", "list", "--follow", "--output", "json")
	var names []string
	for line := range strings.Lines(got.out) {
		var entry struct{ Action string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatalf("log list --follow writes the line %q: %v, want JSON", line, err)
		}
		names = append(names, entry.Action)
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
		t.Errorf("log list --follow = %d with\n%s\nwant %d with\n%s", got.code, a, exit.Interrupted, b)
	}
}

// TestFollowedLogStartsWithNewest checks that --follow begins with the newest twenty records, even if some records have
// the same time.
func TestFollowedLogStartsWithNewest(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	var log, want []string
	for i := range 30 {
		record := fmt.Sprintf(`{"action":"a-%d","timestamp":%q}`, i,
			start.Add(time.Duration(i/3)*time.Second).Format(time.RFC3339Nano))
		log = append([]string{record}, log...)
		if i >= 10 {
			want = append(want, fmt.Sprintf("a-%d", i))
		}
	}
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = fmt.Fprintf(w, `{"data":[%s],"next":null}`, strings.Join(log, ","))
	})
	polls := 0
	fx.onSleep = func(context.Context, time.Duration) error {
		if polls++; polls > 3 {
			return exit.WithCode(exit.Interrupted, errors.New("enough"))
		}
		return nil
	}
	got := fx.run("", "log", "list", "--follow", "--jq", ".action")
	if got.code != exit.Interrupted || got.out != strings.Join(want, "\n")+"\n" {
		t.Errorf("log list --follow = %+v, want code %d and the actions %v", got, exit.Interrupted, want)
	}
}

func recordTime(t *testing.T, record string) time.Time {
	t.Helper()
	var entry struct{ Timestamp time.Time }
	if err := json.Unmarshal([]byte(record), &entry); err != nil {
		t.Fatal(err)
	}
	return entry.Timestamp
}

// TestDeleteReportsDependents checks the reported numbers of deleted objects. If the key has no permission to list the
// objects of a kind, or cannot see one of their lists, their number must be omitted.
func TestDeleteReportsDependents(t *testing.T) {
	t.Parallel()
	consumers := map[string]int{"shop-production": 1, "shop-preview": 2, "shop-working-copy": 3}
	for _, c := range []struct {
		deployments  string // the list of deployments
		status       int    // of the response with the list of deployments
		hiddenSuffix string // of the names of buckets that the key cannot see, "" for none
		wantText     string
	}{
		{`{"data":[{}],"total":3}`, 200, "", "the project shop is deleted, with 3 deployments and 1 certificate and 6 " +
			"consumers and all its variables\n"},
		{`{}`, 403, "", "the project shop is deleted, with all its deployments and 1 certificate and 6 consumers and all " +
			"its variables\n"},
		// A key for one environment cannot see the buckets of other environments, but their consumers are also deleted.
		{`{"data":[],"total":0}`, 200, "-production", "the project shop is deleted, with 0 deployments and 1 certificate " +
			"and all its consumers and all its variables\n"},
	} {
		polls := 0
		fx := newFixtureWith(t, func(w http.ResponseWriter, r *http.Request, _ string) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/deployments") && c.status != http.StatusOK:
				respondError(w, c.status, "the scope is missing")
			case strings.HasSuffix(r.URL.Path, "/deployments"):
				_, _ = io.WriteString(w, c.deployments)
			case strings.HasSuffix(r.URL.Path, "/mtls-certificates"):
				_, _ = io.WriteString(w, `{"total":1}`)
			case c.hiddenSuffix != "" && strings.HasSuffix(r.URL.Path, c.hiddenSuffix+"/consumers"):
				respondError(w, http.StatusNotFound, "there is no such bucket")
			case strings.HasSuffix(r.URL.Path, "/consumers"):
				_, _ = fmt.Fprintf(w, `{"total":%d}`, consumers[path.Base(path.Dir(r.URL.Path))])
			case polls < 2:
				polls++
				_, _ = io.WriteString(w, `{"id":"op_1","status":"in-progress"}`)
			default:
				_, _ = io.WriteString(w, `{"id":"op_1","status":"success"}`)
			}
		})
		fx.onSleep = func(context.Context, time.Duration) error { return nil }
		if got := fx.run("", "project", "delete", "shop"); got.code != exit.Usage || len(fx.requests) > 0 {
			t.Errorf("project delete without --yes = %+v after the requests %q, want code %d after none",
				got, fx.requests, exit.Usage)
		}
		if got := fx.run("", "project", "delete", "shop", "--yes"); got.code != exit.OK ||
			!strings.Contains(got.err, c.wantText) || got.out != "" {
			t.Errorf("project delete --yes = %+v, want code 0, %q, and no output", got, c.wantText)
		}
		if last := fx.requests[len(fx.requests)-1]; !strings.HasPrefix(last,
			"GET /v1/accounts/acme/projects/shop/operations/op_1") {
			t.Errorf("project delete --yes sends the requests %q, want the last to read the operation", fx.requests)
		}
	}
}

func TestFailedOperationExitsWithFailure(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"id":"op_1","status":"error","message":"It has stopped half way."}`)
	})
	if got := fx.run("", "project", "delete", "shop", "--yes"); got.code != exit.Failure ||
		!strings.Contains(got.err, "half way") {
		t.Errorf("project delete with a failed operation = %+v, want code %d and the message", got, exit.Failure)
	}
}

// TestNewSecretIsWrittenOnlyToFile checks --out: only the owner can read the file, an existing file is not overwritten,
// and a failed command leaves no file.
func TestNewSecretIsWrittenOnlyToFile(t *testing.T) {
	t.Parallel()
	denied := false
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		if denied {
			respondError(w, http.StatusForbidden, "not now")
			return
		}
		_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","name":"office","token":"a-token-that-nobody-else-may-see"}`)
	})
	file := filepath.Join(t.TempDir(), "token")
	args := []string{"tunnel", "create", "office", "--out", file, "--output", "json"}
	got := fx.run("", args...)
	if got.code != exit.OK || strings.Contains(got.out+got.err, "nobody-else") || !strings.Contains(got.out, "****") {
		t.Errorf("tunnel create --out = %+v, want code 0 and a masked secret", got)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "a-token-that-nobody-else-may-see\n" {
		t.Errorf("the file of --out has %q, %v, want the secret", text, err)
	}
	if info, err := os.Stat(file); err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
		t.Errorf("Stat() of the file of --out = %v, %v, want the mode 0600", info, err)
	}
	fx.requests = nil
	if got := fx.run("", args...); got.code != exit.Usage || !strings.Contains(got.err, "not written over") {
		t.Errorf("tunnel create --out to an existing file = %+v, want code %d and \"not written over\"", got, exit.Usage)
	}
	for _, request := range fx.requests {
		if strings.HasPrefix(request, http.MethodPost) {
			t.Errorf("tunnel create --out to an existing file sends %s, want no POST", request)
		}
	}
	denied = true
	if got := fx.run("", "tunnel", "create", "office", "--out", file+"2"); got.code != exit.NotAllowed {
		t.Errorf("tunnel create that is refused = %+v, want code %d", got, exit.NotAllowed)
	}
	if _, err := os.Stat(file + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("tunnel create that is refused: Stat() error = %v, want no file", err)
	}
}
