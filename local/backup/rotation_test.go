package backup_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// TestBackupDuringRotationHasBothKeys checks that values can be opened in the
// restored directory, whether they were sealed before or after the rotation began.
func TestBackupDuringRotationHasBothKeys(t *testing.T) {
	i := mustStart(t, filepath.Join(t.TempDir(), "data"))
	path := filepath.Join(i.dir, rootkey.Name)
	if err := os.WriteFile(filepath.Join(i.dir, "account-key"), []byte("gw_demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	source := rootkey.Source(path, i.engine, i.table, time.Now)
	sealedOld, err := seal.NewSealer(source).Seal(t.Context(), []byte("old"), "record")
	if err != nil {
		t.Fatal(err)
	}
	beginWrites, err := source.Begin(t.Context(), "op", "auditor")
	if err == nil {
		err = i.table.Commit(t.Context(), beginWrites...)
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
	source.Expire()
	sealedNew, err := seal.NewSealer(source).Seal(t.Context(), []byte("new"), "record")
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
	r := mustStart(t, to)
	sealer := seal.NewSealer(rootkey.Source(filepath.Join(to, rootkey.Name), r.engine, r.table, time.Now))
	for want, sealed := range map[string][]byte{"old": sealedOld, "new": sealedNew} {
		if got, err := sealer.Open(t.Context(), sealed, "record"); err != nil || string(got) != want {
			t.Errorf("Open(sealed under the %s key) = %q, %v, want %[1]q", want, got, err)
		}
	}
}
