package commands_test

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gofrs/flock"

	"github.com/gatewright/gatewright/client/commands"
	"github.com/gatewright/gatewright/client/exit"
)

// TestSecretFileNeedsSyncableFolder checks that NewSecretFile fails for a folder that cannot be read. A file can be
// created there, but the folder cannot be synced. The error must come before the secret is created.
func TestSecretFileNeedsSyncableFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "drop")
	const nobody, writeOnly, ownerOnly, traversable = 65534, 0o300, 0o700, 0o711
	if err := errors.Join(os.Chmod(filepath.Dir(filepath.Dir(dir)), traversable), os.Mkdir(dir, writeOnly)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	result := make(chan error)
	go func() {
		// Without an unlock, the thread ends with the goroutine, so no other goroutine runs as nobody.
		runtime.LockOSThread()
		_ = syscall.Setfsuid(nobody)
		result <- commands.NewSecretFile(filepath.Join(dir, "key"))
	}()
	if err := <-result; err == nil || !strings.Contains(err.Error(), "nothing is made for it: permission denied") {
		t.Errorf("NewSecretFile() in an unreadable folder: error = %v, want %q", err,
			"nothing is made for it: permission denied")
	}
	if err := os.Chmod(dir, ownerOnly); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("NewSecretFile() in an unreadable folder leaves %v, %v, want no file", entries, err)
	}
}

// TestLeftoverSecretFileIsReused checks that a command reuses a leftover file: the file of a command that was killed
// before it wrote its secret. The command must not change other files. It must also not change a leftover file that
// another command has locked.
func TestLeftoverSecretFileIsReused(t *testing.T) {
	t.Parallel()
	const reservedSize, nobody = 4096, 65534
	leftover := strings.Repeat("\n", reservedSize)
	const secret = "a-token-of-a-tunnel"
	fx := newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","token":"`+secret+`"}`)
	})
	for name, c := range map[string]struct {
		content string
		change  func(path string) error
		reused  bool
	}{
		"leftover file":           {content: leftover, reused: true},
		"empty file":              {},
		"extra line feed":         {content: leftover + "\n"},
		"missing line feed":       {content: leftover[1:]},
		"secret at the beginning": {content: "x" + leftover[1:]},
		"secret at the end":       {content: leftover[1:] + "x"},
		"file readable by others": {content: leftover, change: func(path string) error { return os.Chmod(path, 0o640) }},
		"file of another user": {content: leftover, change: func(path string) error {
			if os.Geteuid() != 0 {
				// only root can change the owner; test an empty file instead, which is no leftover file
				return os.WriteFile(path, nil, 0)
			}
			return os.Chown(path, nobody, nobody)
		}},
		"symbolic link": {content: leftover, change: func(path string) error {
			return errors.Join(os.Rename(path, path+"-real"), os.Symlink(path+"-real", path))
		}},
		"locked file": {content: leftover, change: func(path string) error {
			lock := flock.New(path, flock.SetFlag(os.O_RDWR))
			t.Cleanup(func() { _ = lock.Close() })
			_, err := lock.TryLock()
			return err
		}},
	} {
		path := filepath.Join(t.TempDir(), "token")
		writeFile(t, path, c.content)
		if c.change != nil {
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
		}
		fx.requests = nil
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := fx.run("", "tunnel", "create", "office", "--out", path)
		after, err := os.ReadFile(path)
		switch {
		case err != nil:
			t.Errorf("%s: read the file after create --out: error = %v, want none", name, err)
		case c.reused && (got.code != exit.OK || string(after) != secret+"\n"):
			t.Errorf("%s: create --out = %+v with the content %q, want code 0 and the secret", name, got, after)
		case !c.reused && (got.code != exit.Usage || string(after) != string(before) || len(fx.requests) > 0 ||
			!strings.Contains(got.err, "is not written over")):
			t.Errorf("%s: create --out = %+v with the requests %q and the content %q, "+
				"want code %d, the error %q, no request and the content %q",
				name, got, fx.requests, after, exit.Usage, "is not written over", before)
		}
	}
}

// TestConcurrentCommandsShareNoSecretFile runs a second command with the same file while the first one creates its
// secret. The second command must create no secret, even if the file was a leftover file.
func TestConcurrentCommandsShareNoSecretFile(t *testing.T) {
	t.Parallel()
	for _, leftover := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "token")
		if leftover {
			writeFile(t, path, strings.Repeat("\n", 4096))
		}
		var second result
		created := 0
		var fx *fixture
		fx = newFixtureWith(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			if created++; created == 1 {
				second = fx.run("", "tunnel", "create", "second", "--out", path)
			}
			_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","token":"first"}`)
		})
		first := fx.run("", "tunnel", "create", "first", "--out", path)
		content, err := os.ReadFile(path)
		if err != nil || string(content) != "first\n" {
			t.Errorf("leftover file %t: the file has %q, %v, want the first secret", leftover, content, err)
		}
		if first.code != exit.OK || second.code != exit.Usage || created != 1 {
			t.Errorf("leftover file %t: two create --out = %+v and %+v with %d secrets, want the codes %d and %d and 1 secret",
				leftover, first, second, created, exit.OK, exit.Usage)
		}
	}
}
