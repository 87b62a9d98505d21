package product

import (
	"bytes"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// withAccount calls do with the database and the account acme, which it creates if it is missing.
func withAccount(t *testing.T, do func(d *database, accountID string) error) {
	t.Helper()
	err := Laptop.withDatabase(t.Context(), []string{"a", "test"}, io.Discard, io.Discard, func(d *database) error {
		account, err := d.accounts().Find(t.Context(), "acme")
		if err != nil {
			account, _, err = d.accounts().Create(t.Context(), "acme")
		}
		if err != nil {
			return err
		}
		return do(d, account.ID)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// runLocal runs a command of the product and returns its output.
func runLocal(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := Laptop.command(administration{program: Laptop})
	root.SetArgs(args)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	err = root.ExecuteContext(t.Context())
	return stdout.String(), stderr.String(), err
}

// TestAuditLogIsVerifiedAndExported verifies an audit log with the data, and an export of the log with
// and without the data. An altered export and a removed record must be detected.
func TestAuditLogIsVerifiedAndExported(t *testing.T) {
	t.Setenv("GATEWRIGHT_DATA_DIR", t.TempDir())
	withAccount(t, func(*database, string) error { return nil })
	if out, errOut, err := runLocal(t, "audit", "verify", "acme"); err != nil || out != "" ||
		!strings.Contains(errOut, "1 wait to be chained") {
		t.Errorf("audit verify acme = %q, %q, %v, want 1 record that waits and no error", out, errOut, err)
	}
	var chained []audit.Entry
	withAccount(t, func(d *database, accountID string) (err error) {
		if chained, err = audit.ListPending(t.Context(), d.table, accountID); err != nil {
			return err
		}
		return trail.Open(installation.Parts{
			Table: d.table, Key: d.key, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		}).Chain(t.Context(), accountID, chained)
	})
	end, errOut, err := runLocal(t, "audit", "verify", "acme")
	if err != nil || !strings.HasPrefix(end, "1:") ||
		!strings.Contains(errOut, "1 records, 1 to 1, are as they were signed; 0 wait") {
		t.Fatalf("audit verify acme = %q, %q, %v, want 1 record as signed and no error", end, errOut, err)
	}
	file := filepath.Join(t.TempDir(), "acme.jsonl")
	_, errOut, err = runLocal(t, "audit", "export", "acme", file)
	key := regexp.MustCompile(`The public key is (\S+)\.`).FindStringSubmatch(errOut)
	if err != nil || key == nil {
		t.Fatalf("audit export = %q, %v, want the public key and no error", errOut, err)
	}
	for _, args := range [][]string{
		{"acme", file},
		{"acme", file, "--public-key", key[1]},
		{"acme", file, "--noted", strings.TrimSpace(end)},
		{"acme", "--noted", strings.TrimSpace(end)},
	} {
		if out, errOut, err := runLocal(t, append([]string{"audit", "verify"}, args...)...); err != nil || out != end {
			t.Errorf("audit verify %q = %q, %q, %v, want %q", args, out, errOut, err, end)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("account.create"), []byte("account.delete"), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	withAccount(t, func(d *database, accountID string) error {
		return d.table.Commit(t.Context(), store.Delete(audit.ChainedKey(accountID, chained[0])))
	})
	for want, args := range map[string][]string{
		"broken: record 1 was altered":   {"acme", file},
		"broken: record 1 was removed":   {"acme"},
		"--noted: write a record's":      {"acme", "--noted", "x"},
		"--public-key: a public key has": {"acme", file, "--public-key", "x"},
		"name its file too":              {"acme", "--public-key", key[1]},
		"of another account's audit log": {"evil", file, "--public-key", key[1]},
		"name one account":               {},
		"no such file":                   {"acme", "no-such-file"},
	} {
		if out, errOut, err := runLocal(t, append([]string{"audit", "verify"}, args...)...); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("audit verify %v = %q, %q, %v, want the error %q", args, out, errOut, err, want)
		}
	}
}
