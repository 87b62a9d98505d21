//go:build unix

package datadir_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/local/datadir"
)

// TestWhatRootHasMadeGoesToTheDirectorysUser, and nothing that this user has only put there.
func TestWhatRootHasMadeGoesToTheDirectorysUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone may give files away")
	}
	const user = 65532
	d, outside := open(t), t.TempDir()
	sub, err := d.Sub("engine")
	if err != nil {
		t.Fatal(err)
	}
	made, linked, other := filepath.Join(sub, "made"), filepath.Join(outside, "linked"), filepath.Join(sub, "other")
	for _, path := range []string{made, linked, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Return(); err != nil || ownerOf(t, made) != 0 {
		t.Fatalf("of root's own directory something is given away, or %v", err)
	}
	for _, err := range []error{
		os.Link(linked, d.Path("hard")), os.Symlink(linked, d.Path("soft")), os.Symlink(outside, d.Path("folder")),
		os.Chown(other, user+1, user+1), os.Chown(d.Path(), user, user),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(outside, "data") // as systemd has it for a service with a user of its own
	if err := os.Symlink(d.Path(), link); err != nil {
		t.Fatal(err)
	}
	d, err = datadir.Open(link)
	if err == nil {
		err = d.Return()
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]uint32{sub: user, made: user, other: user + 1, linked: 0, outside: 0, d.Path("hard"): 0, d.Path("soft"): 0} {
		if got := ownerOf(t, path); got != want {
			t.Errorf("%s is %d's, want %d", path, got, want)
		}
	}
}

func ownerOf(t *testing.T, path string) uint32 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Uid
}
