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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
)

// TestAuditLogIsVerifiedAndExported, from the data and from the file alone.
func TestAuditLogIsVerifiedAndExported(t *testing.T) {
	t.Setenv("GATEWRIGHT_DATA_DIR", t.TempDir())
	in := func(do func(d *database, accountID string) error) {
		t.Helper()
		if err := Laptop.withDatabase(t.Context(), []string{"a", "test"}, io.Discard, io.Discard, func(d *database) error {
			account, err := d.accounts().Find(t.Context(), "acme")
			if err != nil {
				account, _, err = d.accounts().Create(t.Context(), "acme")
			}
			if err != nil {
				return err
			}
			return do(d, account.ID)
		}); err != nil {
			t.Fatal(err)
		}
	}
	local := func(args ...string) (out, remarks string, err error) {
		var stdout, stderr bytes.Buffer
		root := Laptop.command(administration{program: Laptop})
		root.SetArgs(args)
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		err = root.ExecuteContext(t.Context())
		return stdout.String(), stderr.String(), err
	}
	in(func(*database, string) error { return nil })
	if out, remarks, err := local("audit", "verify", "acme"); err != nil || out != "" || !strings.Contains(remarks, "1 wait to be chained") {
		t.Errorf("%q, %q, %v", out, remarks, err)
	}
	var chained []audit.Entry
	in(func(d *database, accountID string) (err error) {
		if chained, err = audit.New(t.Context(), d.table, accountID); err != nil {
			return err
		}
		return trail.Open(installation.Parts{Table: d.table, Key: d.key, Now: time.Now, Log: slog.New(slog.DiscardHandler)}).Chain(t.Context(), accountID, chained)
	})
	end, remarks, err := local("audit", "verify", "acme")
	if err != nil || !strings.HasPrefix(end, "1:") || !strings.Contains(remarks, "1 records, 1 to 1, are as they were signed; 0 wait") {
		t.Fatalf("%q, %q, %v", end, remarks, err)
	}
	file := filepath.Join(t.TempDir(), "acme.jsonl")
	_, remarks, err = local("audit", "export", "acme", file)
	key := regexp.MustCompile(`The public key is (\S+)\.`).FindStringSubmatch(remarks)
	if err != nil || key == nil {
		t.Fatalf("%q, %v", remarks, err)
	}
	for _, args := range [][]string{{"acme", file}, {"acme", file, "--public-key", key[1]}, {"acme", file, "--noted", strings.TrimSpace(end)}, {"acme", "--noted", strings.TrimSpace(end)}} {
		if out, remarks, err := local(append([]string{"audit", "verify"}, args...)...); err != nil || out != end {
			t.Errorf("%v: %q, %q, %v", args, out, remarks, err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, bytes.Replace(text, []byte("account.create"), []byte("account.delete"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	in(func(d *database, accountID string) error {
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
		if out, remarks, err := local(append([]string{"audit", "verify"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %q, %q, %v, want %q", args, out, remarks, err, want)
		}
	}
}
