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

// TestAuditLogWithoutAnEndIsLeft has pages of the audit log lead round in a circle, or to others without records.
func TestAuditLogWithoutAnEndIsLeft(t *testing.T) {
	t.Parallel()
	const record = `{"action":"key-bucket.create","timestamp":"2026-05-01T12:00:00Z"}`
	for _, c := range []struct {
		name, records, says string
		words               []string
		want                exit.Code
	}{
		{name: "listed", records: record, words: []string{"list"}, says: "after itself", want: exit.Failure},
		{name: "followed", records: record, words: []string{"list", "--follow"}, says: "after itself", want: exit.Failure},
		{name: "followed, without records", words: []string{"list", "--follow"}, want: exit.Interrupted},
		{name: "exported", words: []string{"export", "audit.jsonl"}, says: "after itself", want: exit.Failure},
	} {
		asked := 0
		l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			if asked++; asked > 9 {
				w.WriteHeader(http.StatusTeapot) // of a log that goes on
				return
			}
			_, _ = fmt.Fprintf(w, `{"data":[%s],"links":[],"next":"%d"}`, c.records, asked%3)
		})
		l.waits = func(context.Context, time.Duration) error { return exit.ErrInterrupted }
		dir := t.TempDir()
		for i, word := range c.words {
			if word == "audit.jsonl" {
				c.words[i] = filepath.Join(dir, word)
			}
		}
		if got := l.run("", append([]string{"log"}, c.words...)...); got.code != c.want || asked > 4 || !strings.Contains(got.err, c.says) {
			t.Errorf("%s: %+v after %d requests", c.name, got, asked)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: it leaves %v, %v", c.name, left, err)
		}
	}
}

// TestAuditLogOfNoKeyIsNotWritten: no file could be proved by it, and the same command would find one in its way.
func TestAuditLogOfNoKeyIsNotWritten(t *testing.T) {
	t.Parallel()
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"links":[],"header":{"account":"acme","publicKey":"none"}}`)
	})
	dir := t.TempDir()
	if got := l.run("", "log", "export", filepath.Join(dir, "audit.jsonl")); got.code != exit.Failure || !strings.Contains(got.err, "a public key has") {
		t.Errorf("it ends with %+v", got)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

// TestOperationOfNoStatusIsLeft: what is neither under way nor over would be asked for until the command's time is up.
func TestOperationOfNoStatusIsLeft(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"", "gone", "IN_PROGRESS"} {
		l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			_, _ = fmt.Fprintf(w, `{"id":"op_1","status":%q}`, status)
		})
		waits := 0
		l.waits = func(context.Context, time.Duration) error {
			if waits++; waits > 3 {
				return exit.ErrInterrupted
			}
			return nil
		}
		if got := l.run("", "project", "delete", "shop", "--yes"); got.code != exit.Failure || !strings.Contains(got.err, "is no status") || waits > 0 {
			t.Errorf("%q: %+v after %d waits", status, got, waits)
		}
	}
}

// TestFileWithoutASecretIsAFailure has an API make a secret and not tell it: who goes on with the file has none.
func TestFileWithoutASecretIsAFailure(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{`{}`, ``, `{"token":7}`, `{"token":""}`, `[{"token":"x"}]`} {
		l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) { _, _ = io.WriteString(w, answer) })
		file := filepath.Join(t.TempDir(), "token")
		if got := l.run("", "tunnel", "create", "office", "--out", file); got.code != exit.Failure || !strings.Contains(got.err, "has no secret") || got.out != "" {
			t.Errorf("%s: %+v", answer, got)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a file is left: %v", answer, err)
		}
	}
}

// TestWhoIsNobodyIsAFailure has what answers whose key it is be no management API: an account of one's own would not help.
func TestWhoIsNobodyIsAFailure(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]exit.Code{`true`: exit.Failure, `[null]`: exit.Failure, ``: exit.Failure, `{"account":7}`: exit.Failure, `{"account":""}`: exit.Usage} {
		l := newLine(t)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) }))
		l.env[profile.VarURL] = server.URL
		got := l.run("", "bucket", "list")
		server.Close()
		if got.code != want || got.out != "" || strings.Contains(got.err, "--account") != (want == exit.Usage) {
			t.Errorf("%s: %+v", answer, got)
		}
	}
}

// TestExportAsksForNoFolderThatItCannotMake: an account of many objects takes minutes to ask for.
func TestExportAsksForNoFolderThatItCannotMake(t *testing.T) {
	t.Parallel()
	l, dir := newLine(t), t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	for folder, says := range map[string]string{dir: "with files in it", file: "cannot be read", filepath.Join(dir, "none", "account"): "cannot be read"} {
		if got := l.run("", "export", "keyBuckets", "--out", folder); got.code != exit.Usage || !strings.Contains(got.err, says) || len(l.asked) > 0 {
			t.Errorf("%s: %+v; it asks %q", folder, got, l.asked)
		}
	}
}

// TestNothingEmptyIsMeant: a variable of the shell without a value is no folder, and no place for a secret.
func TestNothingEmptyIsMeant(t *testing.T) {
	t.Chdir(t.TempDir()) // which is what would be acted on
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","token":"a-token-that-nobody-else-may-see"}`)
	})
	for says, words := range map[string][]string{
		"FOLDER is empty": {"init", ""}, "FOLDER is empty:": {"deploy", "", "--project", "shop", "--branch", "main"}, "FOLDER is empty: ": {"validate", ""},
		"FILE is empty": {"log", "export", ""}, "PLAN|FILES is empty": {"apply", "", "--yes"}, "FILES is empty": {"plan", ""},
		"PROJECT is empty": {"project", "delete", "", "--yes"}, "DEPLOYMENT is empty": {"deployment", "delete", "", "--yes"},
		"--out is empty: name a file": {"tunnel", "create", "office", "--out", ""}, "--out is empty: name a folder": {"export", "--out", ""}, "--sarif is empty": {"validate", "--sarif", ""},
	} {
		if got := l.run("", words...); got.code != exit.Usage || !strings.Contains(got.err, strings.TrimRight(says, ": ")) || strings.Contains(got.out, "nobody-else") {
			t.Errorf("%q: %+v", words, got)
		}
	}
	if len(l.asked) > 0 {
		t.Errorf("the API is asked: %q", l.asked)
	}
}

// TestNoNameIsThatOfAnotherPath: who joins .. to the path above deletes a bucket in place of its consumer.
func TestNoNameIsThatOfAnotherPath(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	for _, name := range []string{".", ".."} {
		for _, words := range [][]string{
			{"consumer", "delete", name, "--bucket", "b", "--yes"},
			{"project", "get", name},
			{"consumer", "get", "c", "--bucket", name},
			{"api", "ApiKeyConsumersService_delete", "--bucket-name", "b", "--consumer-name", name},
		} {
			l.asked = nil
			got := l.run("", words...)
			if got.code == exit.OK || !strings.Contains(got.err, "which is that of another path") {
				t.Errorf("%q: %+v", words, got)
			}
			for _, asked := range l.asked {
				if strings.Contains(asked, "/.") {
					t.Errorf("%q: it asks %s", words, asked)
				}
			}
		}
	}
}
