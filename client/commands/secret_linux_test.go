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

// TestRoomThatAKilledCommandLeavesIsTaken, and nothing else that is there, nor what another command is about to write.
func TestRoomThatAKilledCommandLeavesIsTaken(t *testing.T) {
	t.Parallel()
	const room, nobody = 4096, 65534
	left := strings.Repeat("\n", room)
	const secret = "a-token-of-a-tunnel"
	l := newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","token":"`+secret+`"}`)
	})
	for name, c := range map[string]struct {
		content string
		change  func(path string) error
		taken   bool
	}{
		"room alone":              {content: left, taken: true},
		"nothing":                 {},
		"a line end more":         {content: left + "\n"},
		"a line end less":         {content: left[1:]},
		"a secret at its begin":   {content: "x" + left[1:]},
		"a secret at its end":     {content: left[1:] + "x"},
		"one that others may see": {content: left, change: func(path string) error { return os.Chmod(path, 0o640) }},
		"one of another user": {content: left, change: func(path string) error {
			if os.Geteuid() != 0 {
				return os.WriteFile(path, nil, 0) // which is none
			}
			return os.Chown(path, nobody, nobody)
		}},
		"a link": {content: left, change: func(path string) error {
			return errors.Join(os.Rename(path, path+"-real"), os.Symlink(path+"-real", path))
		}},
		"one that is held": {content: left, change: func(path string) error {
			held := flock.New(path, flock.SetFlag(os.O_RDWR))
			t.Cleanup(func() { _ = held.Close() })
			_, err := held.TryLock()
			return err
		}},
	} {
		path := filepath.Join(t.TempDir(), "token")
		write(t, path, c.content)
		if c.change != nil {
			if err := c.change(path); err != nil {
				t.Fatal(err)
			}
		}
		l.asked = nil
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := l.run("", "tunnel", "create", "office", "--out", path)
		after, err := os.ReadFile(path)
		switch {
		case err != nil:
			t.Error(err)
		case c.taken && (got.code != exit.OK || string(after) != secret+"\n"):
			t.Errorf("%s: %+v, and there is %q", name, got, after)
		case !c.taken && (got.code != exit.Usage || string(after) != string(before) || len(l.asked) > 0 || !strings.Contains(got.err, "is not written over")):
			t.Errorf("%s: %+v after %q, and there is %q", name, got, l.asked, after)
		}
	}
}

// TestOneOfTwoCommandsHasTheFile: the other one makes no secret, also where it finds room that a third one has left.
func TestOneOfTwoCommandsHasTheFile(t *testing.T) {
	t.Parallel()
	for _, left := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "token")
		if left {
			write(t, path, strings.Repeat("\n", 4096))
		}
		var other ran
		made := 0
		var l *line
		l = newLineOf(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			if made++; made == 1 {
				other = l.run("", "tunnel", "create", "second", "--out", path)
			}
			_, _ = io.WriteString(w, `{"tunnelId":"tnl_1","token":"first"}`)
		})
		first := l.run("", "tunnel", "create", "first", "--out", path)
		content, err := os.ReadFile(path)
		if err != nil || first.code != exit.OK || string(content) != "first\n" || other.code != exit.Usage || made != 1 {
			t.Errorf("left %t: %+v and %+v, %d secrets, of which %q is kept: %v", left, first, other, made, content, err)
		}
	}
}
