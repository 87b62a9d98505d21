package fill

import "github.com/cockroachdb/pebble/v2/vfs"

// unsynced is a file system whose files ignore sync, so that a million consumers are created in minutes. If the machine
// fails meanwhile, the data directory is incomplete anyway, and must be created again.
type unsynced struct{ vfs.FS }

// unsyncedFile is a file that does not wait until its data are on the disk.
type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }

// wrap returns f as an unsyncedFile, unless err is not nil.
func wrap(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

// Create implements vfs.FS, as the other methods do.
func (u unsynced) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(u.FS.Create(name, category))
}

func (u unsynced) OpenDir(name string) (vfs.File, error) { return wrap(u.FS.OpenDir(name)) }

func (u unsynced) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption,
) (vfs.File, error) {
	return wrap(u.FS.OpenReadWrite(name, category, options...))
}

func (u unsynced) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return wrap(u.FS.ReuseForWrite(from, to, category))
}
