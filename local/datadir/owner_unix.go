//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// Return gives what root has made in the directory to the user whose directory it is, who could not open it: a service with a
// user of its own, whose commands root types while it does not run. It does nothing for anybody but root. What has another
// name somewhere, and what a link leads to, is left alone: that user may have put it there to get it.
func (d *Dir) Return() error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(d.path) // which systemd makes a link, for a user that there is while the service runs
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(d.path) // follows nothing out of it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := root.Lstat(path)
		if err != nil {
			return err
		}
		its, ok := info.Sys().(*syscall.Stat_t)
		if !ok || its.Uid != 0 || !info.IsDir() && (!info.Mode().IsRegular() || its.Nlink > 1) {
			return nil
		}
		return root.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
