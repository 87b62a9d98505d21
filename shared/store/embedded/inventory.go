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

// inventory is a file system that keeps a list of the files on which Pebble relies, so that a start notices if one of them is missing
// or damaged. Pebble itself treats an unreadable record of its manifest as the end of the manifest, and serves the rest.
//
// Everything on the list is on disk, whenever the process is killed or the power fails:
//   - A log, or the marker that names the manifest, is listed after its folder has been synced, and unlisted before it is removed.
//   - The length of a log is listed when the log is closed, before the next log is made. Pebble takes a log that was cut at the end of a
//     record for a whole one.
//   - The length and the digest of a manifest are listed after the manifest has been synced, before Pebble continues. Nothing relies yet
//     on the bytes behind the listed length: the tables and logs that they replace are still there.
//
// Tables are not listed: the manifest names them, and Pebble does not open if one of them is missing.
type inventory struct {
	vfs.FS
	dir  string // Pebble's folder
	path string // of the list

	mu   sync.Mutex
	list contents
	made map[string]bool // new files whose folder is not synced yet
}

// contents is the form of the list, in JSON.
type contents struct {
	// Files has the names of logs and markers, with the length of a closed log and 0 for the others.
	Files     map[string]int64  `json:"files"`
	Manifests map[string]prefix `json:"manifests"`
	// Sum is the digest of the list with an empty Sum, in hexadecimal.
	Sum string `json:"sum"`
}

// encode returns the content of the list's file.
func (c contents) encode() ([]byte, error) {
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

// prefix is the part of a manifest on which Pebble relies.
type prefix struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // in hexadecimal
}

// Prefixes and suffixes of the names of Pebble's files.
const (
	logEnding      = ".log"
	tableEnding    = ".sst"
	manifestStart  = "MANIFEST-"
	manifestMarker = "marker.manifest."
)

func isListed(name string) bool {
	return strings.HasSuffix(name, logEnding) || strings.HasPrefix(name, manifestMarker)
}

func isManifest(name string) bool { return strings.HasPrefix(name, manifestStart) }

// takeStock makes the list of a folder that survey has checked. known is the list that survey has found.
func takeStock(fs vfs.FS, dir, path string, known contents) (*inventory, error) {
	v := &inventory{FS: fs, dir: dir, path: path, list: contents{Files: map[string]int64{}, Manifests: map[string]prefix{}}, made: map[string]bool{}}
	names, err := fs.List(dir)
	if err != nil {
		return nil, err
	}
	if err := syncFolder(fs, dir); err != nil { // a kill may have left files whose folder was never synced
		return nil, err
	}
	for _, name := range names {
		if isListed(name) {
			v.list.Files[name] = known.Files[name]
		}
		if p, ok := known.Manifests[name]; ok {
			v.list.Manifests[name] = p
		}
	}
	if len(v.list.Files) == 0 {
		return v, nil // a new store: the list comes with its first file
	}
	return v, v.write()
}

// within returns the file name of a path, and whether the file is in Pebble's folder.
func (v *inventory) within(path string) (name string, ok bool) {
	return v.PathBase(path), v.PathDir(path) == v.dir
}

// Create implements vfs.FS. Before it makes a marker, it syncs the folder, so that the manifest that the marker names is on disk. Pebble
// syncs the folder only once for both files: a power cut before that could leave the marker without its manifest.
func (v *inventory) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	name, ok := v.within(path)
	if ok && strings.HasPrefix(name, manifestMarker) {
		if err := syncFolder(v.FS, v.dir); err != nil {
			return nil, err
		}
	}
	file, err := v.FS.Create(path, category)
	if err != nil || !ok {
		return file, err
	}
	if isManifest(name) {
		return &manifestFile{File: file, inventory: v, name: name, digest: sha256.New()}, nil
	}
	v.make(name)
	return v.logFile(file, name), nil
}

// ReuseForWrite implements vfs.FS.
func (v *inventory) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := v.drop(from); err != nil {
		return nil, err
	}
	file, err := v.FS.ReuseForWrite(from, to, category)
	name, ok := v.within(to)
	if err != nil || !ok {
		return file, err
	}
	v.make(name)
	return v.logFile(file, name), nil
}

// logFile returns the file of a log, so that its length is listed, and any other file as it is.
func (v *inventory) logFile(file vfs.File, name string) vfs.File {
	if !strings.HasSuffix(name, logEnding) {
		return file
	}
	return &logFile{File: file, inventory: v, name: name}
}

// Remove implements vfs.FS.
func (v *inventory) Remove(path string) error {
	if err := v.drop(path); err != nil {
		return err
	}
	return v.FS.Remove(path)
}

// OpenDir implements vfs.FS.
func (v *inventory) OpenDir(path string) (vfs.File, error) {
	file, err := v.FS.OpenDir(path)
	if err != nil || path != v.dir {
		return file, err
	}
	return folderFile{file, v}, nil
}

// Unwrap implements vfs.FS.
func (v *inventory) Unwrap() vfs.FS { return v.FS }

func (v *inventory) make(name string) {
	if !isListed(name) {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.made[name] = true
}

// drop removes a file from the list before the file is removed. It also lists the files that replace it, such as another marker.
func (v *inventory) drop(path string) error {
	name, ok := v.within(path)
	if !ok {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.made, name)
	_, hasPrefix := v.list.Manifests[name]
	_, listed := v.list.Files[name]
	if !hasPrefix && !listed {
		return nil
	}
	if err := syncFolder(v.FS, v.dir); err != nil {
		return err
	}
	delete(v.list.Files, name)
	delete(v.list.Manifests, name)
	v.add(v.made)
	return v.write()
}

// add lists new files whose folder has been synced. It reports whether it has listed any.
func (v *inventory) add(names map[string]bool) (added bool) {
	for name := range names {
		if !v.made[name] {
			continue // removed since
		}
		added = true
		delete(v.made, name)
		v.list.Files[name] = 0
	}
	return added
}

// rely lists the synced part of a manifest.
func (v *inventory) rely(name string, p prefix) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.list.Manifests[name] = p
	return v.write()
}

// closed lists the length of a log that gets no more records.
func (v *inventory) closed(name string, length int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, listed := v.list.Files[name]; !listed {
		return nil // removed, or not on disk yet
	}
	v.list.Files[name] = length
	return v.write()
}

func (v *inventory) write() error {
	raw, err := v.list.encode()
	if err != nil {
		return err
	}
	return writeFile(v.FS, v.path, raw)
}

// folderFile is Pebble's folder.
type folderFile struct {
	vfs.File
	inventory *inventory
}

// Sync implements vfs.File.
func (f folderFile) Sync() error {
	v := f.inventory
	v.mu.Lock()
	made := maps.Clone(v.made) // files that are made meanwhile may not be on disk
	v.mu.Unlock()
	if err := f.File.Sync(); err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.add(made) {
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

// Write implements vfs.File, which may change p.
func (f *manifestFile) Write(p []byte) (int, error) {
	f.digest.Write(p)
	f.bytes += int64(len(p))
	return f.File.Write(p)
}

// Sync implements vfs.File.
func (f *manifestFile) Sync() error { return f.synced(f.File.Sync()) }

// SyncData implements vfs.File.
func (f *manifestFile) SyncData() error { return f.synced(f.File.SyncData()) }

func (f *manifestFile) synced(err error) error {
	if err != nil {
		return err
	}
	return f.inventory.rely(f.name, prefix{f.bytes, hex.EncodeToString(f.digest.Sum(nil))})
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

// Close implements vfs.File. Pebble has synced the log.
func (f *logFile) Close() error {
	if err := f.File.Close(); err != nil {
		return err
	}
	return f.inventory.closed(f.name, f.bytes)
}
