package embedded

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// inventory is a file system that keeps a list of the files on which Pebble relies, so that
// a start detects if one of them is missing or damaged. Pebble itself treats an unreadable
// record of its manifest as the end of the manifest, and serves only the data before it.
//
// Every file on the list is on disk, no matter when the process is killed or the power fails:
//   - A log, or the marker that names the manifest, is listed after its folder has been synced, and unlisted before
//     it is removed.
//   - The length of a log is listed when the log is closed, before the next log is created. Pebble itself accepts a
//     log that was cut at the end of a record as complete.
//   - The length and the digest of a manifest are listed after the manifest has been synced, before Pebble continues.
//     The bytes after the listed length are not needed yet: the tables and logs that they replace still exist.
//
// Tables are not listed: the manifest names them, and Pebble does not open if one of them is missing.
type inventory struct {
	vfs.FS
	dir  string // Pebble's folder
	path string // of the list's file

	mu       sync.Mutex
	list     fileList
	unsynced map[string]bool // new files whose folder is not synced yet
}

// fileList is the list, in its JSON form.
type fileList struct {
	// Files has the names of logs and markers. The value of a log that was closed is its
	// length, 0 if the length is unknown (as in a copy). All other values are 0.
	Files     map[string]int64        `json:"files"`
	Manifests map[string]manifestPart `json:"manifests"`
	// Sum is the digest of the list with an empty Sum, in hexadecimal.
	Sum string `json:"sum"`
}

// encode returns the content of the list's file.
func (c fileList) encode() ([]byte, error) {
	c.Sum = ""
	raw, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(raw)
	c.Sum = hex.EncodeToString(sum[:])
	raw, err = json.MarshalIndent(c, "", "  ")
	return append(raw, '\n'), err
}

// manifestPart is the part of a manifest on which Pebble relies.
type manifestPart struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// Prefixes and suffixes of the names of Pebble's files.
const (
	logSuffix      = ".log"
	tableSuffix    = ".sst"
	manifestPrefix = "MANIFEST-"
	manifestMarker = "marker.manifest."
)

// isListed reports whether a file with this name belongs in fileList.Files.
func isListed(name string) bool {
	return strings.HasSuffix(name, logSuffix) || strings.HasPrefix(name, manifestMarker)
}

func isManifest(name string) bool { return strings.HasPrefix(name, manifestPrefix) }

// newInventory returns an inventory for a folder that inspect has checked, and
// writes its list unless the store is new. previous is the list that inspect has found.
func newInventory(fs vfs.FS, dir, path string, previous fileList) (*inventory, error) {
	v := &inventory{
		FS: fs, dir: dir, path: path,
		list: fileList{Files: map[string]int64{}, Manifests: map[string]manifestPart{}}, unsynced: map[string]bool{},
	}
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	if err := syncFolder(fs, dir); err != nil { // a kill may have left files whose folder was never synced
		return nil, err
	}
	for _, name := range names {
		if isListed(name) {
			v.list.Files[name] = previous.Files[name]
		}
		if p, ok := previous.Manifests[name]; ok {
			v.list.Manifests[name] = p
		}
	}
	if len(v.list.Files) == 0 {
		return v, nil // a new store: its list is written with its first file
	}
	return v, v.write()
}

// inFolder returns the file name of a path, and whether the file is in Pebble's folder.
func (i *inventory) inFolder(path string) (name string, ok bool) {
	return i.PathBase(path), i.PathDir(path) == i.dir
}

// Create implements vfs.FS. Before it creates a marker, it syncs the folder, so that
// the manifest that the marker names is on disk. Pebble syncs the folder only once for
// both files: a power cut before that could leave the marker without its manifest.
func (i *inventory) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	name, ok := i.inFolder(path)
	if ok && strings.HasPrefix(name, manifestMarker) {
		if err := syncFolder(i.FS, i.dir); err != nil {
			return nil, err
		}
	}
	file, err := i.FS.Create(path, category)
	if err != nil || !ok {
		return file, err
	}
	if isManifest(name) {
		return &manifestFile{File: file, inventory: i, name: name, digest: sha256.New()}, nil
	}
	i.addUnsynced(name)
	return i.logFile(file, name), nil
}

// ReuseForWrite implements vfs.FS.
func (i *inventory) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := i.unlist(from); err != nil {
		return nil, err
	}
	file, err := i.FS.ReuseForWrite(from, to, category)
	name, ok := i.inFolder(to)
	if err != nil || !ok {
		return file, err
	}
	i.addUnsynced(name)
	return i.logFile(file, name), nil
}

// logFile wraps the file of a log, so that its length is listed when it is closed. It returns any other file unchanged.
func (i *inventory) logFile(file vfs.File, name string) vfs.File {
	if !strings.HasSuffix(name, logSuffix) {
		return file
	}
	return &logFile{File: file, inventory: i, name: name}
}

// Remove implements vfs.FS.
func (i *inventory) Remove(path string) error {
	if err := i.unlist(path); err != nil {
		return err
	}
	return i.FS.Remove(path)
}

// OpenDir implements vfs.FS.
func (i *inventory) OpenDir(path string) (vfs.File, error) {
	file, err := i.FS.OpenDir(path)
	if err != nil || path != i.dir {
		return file, err
	}
	return folderFile{file, i}, nil
}

// Unwrap implements vfs.FS.
func (i *inventory) Unwrap() vfs.FS { return i.FS }

func (i *inventory) addUnsynced(name string) {
	if !isListed(name) {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.unsynced[name] = true
}

// unlist removes a file from the list before the file is deleted or reused. It
// also lists the new files that replace it, such as another marker.
func (i *inventory) unlist(path string) error {
	name, ok := i.inFolder(path)
	if !ok {
		return nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.unsynced, name)
	_, hasPrefix := i.list.Manifests[name]
	_, listed := i.list.Files[name]
	if !hasPrefix && !listed {
		return nil
	}
	if err := syncFolder(i.FS, i.dir); err != nil {
		return err
	}
	delete(i.list.Files, name)
	delete(i.list.Manifests, name)
	i.listSynced(i.unsynced)
	return i.write()
}

// listSynced lists new files whose folder has been synced. It reports whether it has listed any.
func (i *inventory) listSynced(names map[string]bool) (added bool) {
	for name := range names {
		if !i.unsynced[name] {
			continue // the file was removed meanwhile
		}
		added = true
		delete(i.unsynced, name)
		i.list.Files[name] = 0
	}
	return added
}

// recordManifest lists the synced part of a manifest.
func (i *inventory) recordManifest(name string, p manifestPart) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.list.Manifests[name] = p
	return i.write()
}

// recordLength lists the length of a log that receives no more records.
func (i *inventory) recordLength(name string, length int64) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if _, listed := i.list.Files[name]; !listed {
		return nil // the log was removed, or its folder is not synced yet
	}
	i.list.Files[name] = length
	return i.write()
}

func (i *inventory) write() error {
	raw, err := i.list.encode()
	if err != nil {
		return err
	}
	return writeFile(i.FS, i.path, raw)
}

// folderFile is Pebble's folder as an open file. Its Sync lists the new files.
type folderFile struct {
	vfs.File
	inventory *inventory
}

// Sync implements vfs.File.
func (f folderFile) Sync() error {
	v := f.inventory
	v.mu.Lock()
	unsynced := maps.Clone(v.unsynced) // files that are created during the sync may not be on disk after it
	v.mu.Unlock()
	if err := f.File.Sync(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.listSynced(unsynced) {
		return nil
	}
	return v.write()
}

// manifestFile is a manifest that is being written.
type manifestFile struct {
	vfs.File
	inventory *inventory
	name      string
	bytes     int64
	digest    hash.Hash
}

// Write implements vfs.File. It computes the digest first, because the Write of File may change p.
func (f *manifestFile) Write(p []byte) (int, error) {
	f.digest.Write(p)
	f.bytes += int64(len(p))
	return f.File.Write(p)
}

// Sync implements vfs.File.
func (f *manifestFile) Sync() error { return f.synced(f.File.Sync()) }

// SyncData implements vfs.File.
func (f *manifestFile) SyncData() error { return f.synced(f.File.SyncData()) }

// synced lists the manifest after a sync. err is the error of the sync.
func (f *manifestFile) synced(err error) error {
	if err != nil {
		return err
	}
	return f.inventory.recordManifest(f.name, manifestPart{f.bytes, hex.EncodeToString(f.digest.Sum(nil))})
}

// logFile is a log that is being written.
type logFile struct {
	vfs.File
	inventory *inventory
	name      string
	bytes     int64
}

// Write implements vfs.File.
func (f *logFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.bytes += int64(n)
	return n, err
}

// Close implements vfs.File. Pebble has synced the log before.
func (f *logFile) Close() error {
	if err := f.File.Close(); err != nil {
		return err
	}
	return f.inventory.recordLength(f.name, f.bytes)
}
