//go:build unix

package datadir_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gatewright/gatewright/local/datadir"
)

// TestRootsFilesAreChownedToTheDirectorysOwner also checks that files
// of root that the directory's owner has linked there keep their owner.
func TestRootsFilesAreChownedToTheDirectorysOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone may give files away")
	}
	const user = 65532
	d, outside := openTemp(t), t.TempDir()
	sub, err := d.CreateFolder("engine")
	if err != nil {
		t.Fatal(err)
	}
	rootFile, linkTarget, other := filepath.Join(sub, "made"), filepath.Join(outside, "linked"),
		filepath.Join(sub, "other")
	for _, path := range []string{rootFile, linkTarget, other} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.ReturnOwnership(); err != nil || ownerOf(t, rootFile) != 0 {
		t.Fatalf("ReturnOwnership(a directory of root) = %v, owner %d, want no error and root", err, ownerOf(t, rootFile))
	}
	for _, err := range []error{
		os.Link(linkTarget, d.Path("hard")), os.Symlink(linkTarget, d.Path("soft")), os.Symlink(outside, d.Path("folder")),
		os.Chown(other, user+1, user+1), os.Chown(d.Path(), user, user),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(outside, "data") // as systemd creates it for a service with a dynamic user
	if err := os.Symlink(d.Path(), link); err != nil {
		t.Fatal(err)
	}
	d, err = datadir.Open(link)
	if err == nil {
		err = d.ReturnOwnership()
	}
	if err != nil {
		t.Fatalf("ReturnOwnership(a directory of another user) = %v, want no error", err)
	}
	for path, want := range map[string]uint32{
		sub: user, rootFile: user, other: user + 1, linkTarget: 0, outside: 0,
		d.Path("hard"): 0, d.Path("soft"): 0,
	} {
		if got := ownerOf(t, path); got != want {
			t.Errorf("owner of %s = %d, want %d", path, got, want)
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
