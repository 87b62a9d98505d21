package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// TestBackupOfARotationHasBothKeys: what was sealed before it and what was sealed since opens in the restored directory.
func TestBackupOfARotationHasBothKeys(t *testing.T) {
	i := started(t, filepath.Join(t.TempDir(), "data"))
	path := filepath.Join(i.dir, rootkey.Name)
	if err := os.WriteFile(filepath.Join(i.dir, "account-key"), []byte("gw_demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := rootkey.Source(path, i.engine, i.table, time.Now)
	old, err := seal.NewSealer(source).Seal(t.Context(), []byte("old"), "record")
	if err != nil {
		t.Fatal(err)
	}
	begin, err := source.Begin(t.Context(), "op", "auditor")
	if err == nil {
		err = i.table.Commit(t.Context(), begin...)
	}
	var writes []store.Write
	if err == nil {
		if writes, err = source.Switch(t.Context(), "op"); err == nil {
			err = i.table.Commit(t.Context(), writes...)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	source.Forget()
	since, err := seal.NewSealer(source).Seal(t.Context(), []byte("new"), "record")
	if err != nil {
		t.Fatal(err)
	}
	file, to := filepath.Join(t.TempDir(), "file"), filepath.Join(t.TempDir(), "restored")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(i.write(t.Context(), out), out.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), file, to); err != nil {
		t.Fatal(err)
	}
	r := started(t, to)
	sealer := seal.NewSealer(rootkey.Source(filepath.Join(to, rootkey.Name), r.engine, r.table, time.Now))
	for want, sealed := range map[string][]byte{"old": old, "new": since} {
		if got, err := sealer.Open(t.Context(), sealed, "record"); err != nil || string(got) != want {
			t.Errorf("what is sealed under the %s key opens as %q, %v", want, got, err)
		}
	}
}
