package commands_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/profile"
)

// TestEndlessAuditLogFails checks that commands fail if a cursor of the audit log occurs twice. With --follow, pages
// without records must end in a wait.
func TestEndlessAuditLogFails(t *testing.T) {
	t.Parallel()
	const record = `{"action":"key-bucket.create","timestamp":"2026-05-01T12:00:00Z"}`
	for _, c := range []struct {
		name, records, wantText string
		args                    []string
		want                    exit.Code
	}{
		{name: "listed", records: record, args: []string{"list"}, wantText: "after itself", want: exit.Failure},
		{name: "followed", records: record, args: []string{"list", "--follow"}, wantText: "after itself", want: exit.Failure},
		{name: "followed, without records", args: []string{"list", "--follow"}, want: exit.Interrupted},
		{name: "exported", args: []string{"export", "audit.jsonl"}, wantText: "after itself", want: exit.Failure},
	} {
		requests := 0
		fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			if requests++; requests > 9 {
				w.WriteHeader(http.StatusTeapot) // end a client that reads too many pages
				return
			}
			_, _ = fmt.Fprintf(w, `{"data":[%s],"links":[],"next":"%d"}`, c.records, requests%3)
		})
		fx.onSleep = func(context.Context, time.Duration) error { return exit.ErrInterrupted }
		dir := t.TempDir()
		for i, arg := range c.args {
			if arg == "audit.jsonl" {
				c.args[i] = filepath.Join(dir, arg)
			}
		}
		if got := fx.run("", append([]string{"log"}, c.args...)...); got.code != c.want || requests > 4 ||
			!strings.Contains(got.err, c.wantText) {
			t.Errorf("%s: log %v = %+v after %d requests, want code %d and %q after at most 4",
				c.name, c.args, got, requests, c.want, c.wantText)
		}
		if remaining, err := os.ReadDir(dir); err != nil || len(remaining) > 0 {
			t.Errorf("%s: log %v leaves the files %v, %v, want none", c.name, c.args, remaining, err)
		}
	}
}

// TestAuditLogWithInvalidKeyIsNotWritten checks that an export with an invalid key is not written to a file: the file
// could not be verified, and would block the next run.
func TestAuditLogWithInvalidKeyIsNotWritten(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"links":[],"header":{"account":"acme","publicKey":"none"}}`)
	})
	dir := t.TempDir()
	if got := fx.run("", "log", "export", filepath.Join(dir, "audit.jsonl")); got.code != exit.Failure ||
		!strings.Contains(got.err, "a public key has") {
		t.Errorf("log export with an invalid public key = %+v, want code %d and \"a public key has\"", got, exit.Failure)
	}
	if remaining, err := os.ReadDir(dir); err != nil || len(remaining) > 0 {
		t.Errorf("log export with an invalid public key leaves the files %v, %v, want none", remaining, err)
	}
}

// TestUnknownOperationStatusFails checks that a command fails if an operation has an unknown status. Otherwise it would
// poll until its time limit.
func TestUnknownOperationStatusFails(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"", "gone", "IN_PROGRESS"} {
		fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = fmt.Fprintf(w, `{"id":"op_1","status":%q}`, status)
		})
		waits := 0
		fx.onSleep = func(context.Context, time.Duration) error {
			if waits++; waits > 3 {
				return exit.ErrInterrupted
			}
			return nil
		}
		if got := fx.run("", "project", "delete", "shop", "--yes"); got.code != exit.Failure ||
			!strings.Contains(got.err, "is no status") || waits > 0 {
			t.Errorf("project delete with the operation status %q = %+v after %d waits, want code %d after none",
				status, got, waits, exit.Failure)
		}
	}
}

// TestResponseWithoutSecretFails checks that a command fails if the API creates a secret but does not return it. The
// command must remove the file, because it would not contain the secret.
func TestResponseWithoutSecretFails(t *testing.T) {
	t.Parallel()
	for _, resp := range []string{`{}`, ``, `{"token":7}`, `{"token":""}`, `[{"token":"x"}]`} {
		fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, resp) })
		file := filepath.Join(t.TempDir(), "token")
		if got := fx.run("", "tunnel", "create", "office", "--out", file); got.code != exit.Failure ||
			!strings.Contains(got.err, "has no secret") || got.out != "" {
			t.Errorf("tunnel create with the response %s = %+v, want code %d and \"has no secret\"", resp, got, exit.Failure)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("tunnel create with the response %s: Stat() error = %v, want no file", resp, err)
		}
	}
}

// TestWhoAmIWithoutAccountFails checks the error for a server that does not return the account of the key. If the
// server is no management API, the error must not suggest --account, because that would not help.
func TestWhoAmIWithoutAccountFails(t *testing.T) {
	t.Parallel()
	for resp, want := range map[string]exit.Code{
		`true`: exit.Failure, `[null]`: exit.Failure, ``: exit.Failure,
		`{"account":7}`: exit.Failure, `{"account":""}`: exit.Usage,
	} {
		fx := newFixture(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, resp)
		}))
		fx.env[profile.VarURL] = server.URL
		got := fx.run("", "bucket", "list")
		server.Close()
		if got.code != want || got.out != "" || strings.Contains(got.err, "--account") != (want == exit.Usage) {
			t.Errorf("bucket list with the response %s = %+v, want code %d, and --account named only with code %d",
				resp, got, want, exit.Usage)
		}
	}
}

// TestExportChecksFolderFirst checks that a folder that cannot be used is reported before the first request: reading a
// large account takes minutes.
func TestExportChecksFolderFirst(t *testing.T) {
	t.Parallel()
	fx, dir := newFixture(t), t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	for folder, wantText := range map[string]string{
		dir: "with files in it", file: "cannot be read",
		filepath.Join(dir, "none", "account"): "cannot be read",
	} {
		if got := fx.run("", "export", "keyBuckets", "--out", folder); got.code != exit.Usage ||
			!strings.Contains(got.err, wantText) || len(fx.requests) > 0 {
			t.Errorf("export --out %s = %+v after the requests %q, want code %d and %q after none",
				folder, got, fx.requests, exit.Usage, wantText)
		}
	}
}

// TestEmptyArgumentIsRefused checks that an empty argument, such as an unset shell variable, is not used as the name of
// a folder or file.
func TestEmptyArgumentIsRefused(t *testing.T) {
	t.Chdir(t.TempDir()) // an empty name would mean this folder
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","token":"a-token-that-nobody-else-may-see"}`)
	})
	// Some texts end with a colon or a space only because the keys of the map must differ.
	for wantText, args := range map[string][]string{
		"FOLDER is empty": {"init", ""}, "FOLDER is empty:": {"deploy", "", "--project", "shop", "--branch", "main"},
		"FOLDER is empty: ": {"validate", ""},
		"FILE is empty":     {"log", "export", ""}, "PLAN|FILES is empty": {"apply", "", "--yes"},
		"FILES is empty":   {"plan", ""},
		"PROJECT is empty": {"project", "delete", "", "--yes"}, "DEPLOYMENT is empty": {"deployment", "delete", "", "--yes"},
		"the value of --out is empty":  {"tunnel", "create", "office", "--out", ""},
		"the value of --out is empty:": {"export", "--out", ""}, "the value of --sarif is empty": {"validate", "--sarif", ""},
	} {
		if got := fx.run("", args...); got.code != exit.Usage ||
			!strings.Contains(got.err, strings.TrimRight(wantText, ": ")) || strings.Contains(got.out, "nobody-else") {
			t.Errorf("gatewright %q = %+v, want code %d and %q", args, got, exit.Usage, wantText)
		}
	}
	if len(fx.requests) > 0 {
		t.Errorf("commands with an empty argument send the requests %q, want none", fx.requests)
	}
}

// TestDotNamesAreRefused checks that the names . and .. are refused. A request to delete the consumer .. would delete
// the bucket, because the server removes dots from a path.
func TestDotNamesAreRefused(t *testing.T) {
	t.Parallel()
	fx := newFixture(t)
	for _, name := range []string{".", ".."} {
		for _, args := range [][]string{
			{"consumer", "delete", name, "--bucket", "b", "--yes"},
			{"project", "get", name},
			{"consumer", "get", "c", "--bucket", name},
			{"api", "ApiKeyConsumersService_delete", "--bucket-name", "b", "--consumer-name", name},
		} {
			fx.requests = nil
			got := fx.run("", args...)
			if got.code == exit.OK || !strings.Contains(got.err, "which is that of another path") {
				t.Errorf("gatewright %q = %+v, want an error that names the other path", args, got)
			}
			for _, request := range fx.requests {
				if strings.Contains(request, "/.") {
					t.Errorf("gatewright %q sends the request %s, want no path with a dot name", args, request)
				}
			}
		}
	}
}
