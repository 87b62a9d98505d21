//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// ReturnOwnership finds the files and folders in the directory that belong to root, and changes their owner to the
// owner of the directory. Such files exist if root has run a command while the service, which has a user of its own,
// was stopped. The service could not open them. ReturnOwnership does nothing if the user is not root. It skips files
// with several hard links, and targets of symbolic links: the owner of the directory could have linked foreign files
// there to become their owner.
func (d *Dir) ReturnOwnership() error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(d.path) // d.path can be a link: systemd creates one for a service with a dynamic user
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	root, err := os.OpenRoot(d.path) // does not follow links out of the directory
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
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Uid != 0 || !info.IsDir() && (!info.Mode().IsRegular() || stat.Nlink > 1) {
			return nil
		}
		return root.Lchown(path, int(owner.Uid), int(owner.Gid))
	})
}
