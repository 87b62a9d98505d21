package commands_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/client/commands"
)

// TestNoSecretIsMadeForAFolderThatCannotBeKept: one that nobody may read can have a file made in it, and can't have that be kept for good. It is told
// before the secret is made, and not after as one that nobody has seen.
func TestNoSecretIsMadeForAFolderThatCannotBeKept(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "drop")
	const nobody, writeOnly, owners, passed = 65534, 0o300, 0o700, 0o711
	if err := errors.Join(os.Chmod(filepath.Dir(filepath.Dir(dir)), passed), os.Mkdir(dir, writeOnly)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	ends := make(chan error)
	go func() {
		runtime.LockOSThread() // which ends with its goroutine, and with it who it is for files
		_ = syscall.Setfsuid(nobody)
		ends <- commands.NewSecretFile(filepath.Join(dir, "key"))
	}()
	if err := <-ends; err == nil || !strings.Contains(err.Error(), "nothing is made for it: permission denied") {
		t.Errorf("it ends with %v", err)
	}
	if err := os.Chmod(dir, owners); err != nil {
		t.Fatal(err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		t.Errorf("there is %v, %v", there, err)
	}
}
