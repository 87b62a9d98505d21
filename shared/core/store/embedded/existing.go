package embedded

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/base/disk"
)

// existing describes the files that a start finds in the folder, before the start changes anything.
type existing struct {
	names        []string  // of Pebble's files
	inventory    *fileList // nil if there is no valid list
	acknowledged uint64    // the last acknowledged change
	manifest     string    // the manifest that the marker names, "" for none
	marker       string    // the marker's file
}

// errMissing and errChanged describe the problem of a file.
var (
	errMissing = errors.New("is missing")
	errChanged = errors.New("is damaged")
)

// inspect reads the names of the files and the inventory. It refuses files from
// which Pebble would silently serve less data than was stored. It changes nothing.
func (b *Backend) inspect(files string) (*existing, error) {
	e := &existing{}
	var err error
	if e.names, err = b.o.FS.List(files); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, b.openError(err)
	}
	var unreadable bool
	if e.acknowledged, unreadable, err = readAcknowledged(b.o.FS, b.acknowledgedPath()); err != nil {
		return nil, b.openError(err)
	}
	if unreadable {
		b.o.Log.Warn("a file of the store is damaged: this start cannot tell whether the end of the log is missing; the "+
			"next one can", "file", b.acknowledgedPath())
	}
	switch e.inventory, err = readInventory(b.o.FS, b.inventoryPath()); {
	case disk.AccessAdvice(err) != "":
		return nil, b.openError(err)
	case err != nil:
		return nil, fmt.Errorf(
			"the file %s %w (%s): restore the last backup, or delete this file to start without its checks", b.inventoryPath(),
			errChanged, oneLine(err).Error())
	}
	e.marker, e.manifest = newestMarker(e.names)
	if e.inventory != nil && e.olderReleaseWrote() {
		e.inventory = nil
	}
	if e.inventory == nil && !e.isNew() {
		b.o.Log.Info("the store has no valid list of its files, as after a release without this list or after a restore: "+
			"this start checks less", "file", b.inventoryPath())
	}
	if err := e.check(b.o.FS, files); err != nil {
		return nil, b.openError(err)
	}
	return e, nil
}

// isNew reports whether nothing was ever stored. A killed first start may have left files without content.
func (e *existing) isNew() bool { return e.manifest == "" }

// listedFiles returns the content of the inventory, or an empty list if there is no inventory.
func (e *existing) listedFiles() fileList {
	if e.inventory == nil {
		return fileList{}
	}
	return *e.inventory
}

// olderReleaseWrote reports whether a release without inventories has opened the files after the
// inventory was written. Such a start moves the marker to a new manifest, and removes the listed marker.
func (e *existing) olderReleaseWrote() bool {
	listed, _ := newestMarker(slices.Collect(maps.Keys(e.inventory.Files)))
	return listed != "" && !slices.Contains(e.names, listed) && markerNumber(e.marker) > markerNumber(listed)
}

// check returns an error if a file that the inventory lists is missing or
// too short, if the manifest is missing or damaged, or if its marker is missing.
func (e *existing) check(fsys vfs.FS, dir string) error {
	if e.inventory != nil {
		if err := checkLengths(e.inventory.Files, e.names, fsys, dir); err != nil {
			return err
		}
	}
	if e.isNew() {
		if e.acknowledged > 0 || slices.ContainsFunc(e.names, func(name string) bool {
			return strings.HasSuffix(name, logSuffix) || strings.HasSuffix(name, tableSuffix)
		}) {
			return fmt.Errorf("its file %s… %w", manifestMarker, errMissing)
		}
		return nil
	}
	raw, err := readFile(fsys, fsys.PathJoin(dir, e.manifest))
	if err != nil {
		return fmt.Errorf("read its file %s: %w", e.manifest, err)
	}
	if e.inventory != nil {
		if p, ok := e.inventory.Manifests[e.manifest]; ok {
			return p.check(e.manifest, raw)
		}
	}
	return checkRecords(e.manifest, raw)
}

// checkLengths returns an error if a listed file is missing, or if a log is shorter than it was when it was closed.
func checkLengths(listed map[string]int64, names []string, fsys vfs.FS, dir string) error {
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("its file %s %w", name, errMissing)
		}
		info, err := fsys.Stat(fsys.PathJoin(dir, name))
		if err != nil {
			return fmt.Errorf("look at its file %s: %w", name, err)
		}
		if info.Size() < listed[name] {
			return fmt.Errorf("its file %s %w: it has %d bytes, and %d were written", name, errChanged, info.Size(),
				listed[name])
		}
	}
	return nil
}

// check compares a manifest with its length and digest in the inventory.
func (p manifestPart) check(name string, raw []byte) error {
	if int64(len(raw)) < p.Bytes {
		return fmt.Errorf("its file %s %w: it has %d bytes of %d", name, errChanged, len(raw), p.Bytes)
	}
	if sum := sha256.Sum256(raw[:p.Bytes]); hex.EncodeToString(sum[:]) != p.SHA256 {
		return fmt.Errorf("its file %s %w: its content is not what was written", name, errChanged)
	}
	return nil
}

// checkRecords checks a manifest that is not in the inventory: the manifest of an older release, or of a copy. A kill
// or a power cut may have cut its last record short, or left zeros in its place. Any other unreadable record is damage.
func checkRecords(name string, raw []byte) error {
	records := record.NewReader(bytes.NewReader(raw), 0)
	for {
		r, err := records.Next()
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil
		case errors.Is(err, record.ErrZeroedChunk) && allZeros(raw[min(records.Offset(), int64(len(raw))):]):
			return nil
		default:
			return fmt.Errorf("its file %s %w: %s", name, errChanged, oneLine(err).Error())
		}
	}
}

func allZeros(raw []byte) bool { return len(bytes.Trim(raw, "\x00")) == 0 }

// newestMarker returns the marker with the highest number, and the manifest that its name ends with.
func newestMarker(names []string) (marker, manifest string) {
	for _, name := range names {
		if n := markerNumber(name); n > 0 && n > markerNumber(marker) {
			marker = name
			_, manifest, _ = strings.Cut(strings.TrimPrefix(name, manifestMarker), ".")
		}
	}
	return marker, manifest
}

// markerNumber returns the number of a manifest's marker, 0 for any other file. Numbers rise with each move of the marker.
func markerNumber(name string) uint64 {
	rest, ok := strings.CutPrefix(name, manifestMarker)
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, ".")
	n, _ := strconv.ParseUint(number, 10, 64) // 0 if the text is not a number
	return n
}

// verifyReadOnly opens an existing store read-only and checks it, so that a refused store does not
// change. When Pebble opens files for writing, it writes the log into tables and removes the log.
func (b *Backend) verifyReadOnly(files string, e *existing) error {
	options := b.pebbleOptions(b.o.FS)
	defer options.Cache.Unref()
	options.ReadOnly, options.ErrorIfNotExists = true, true
	db, err := pebble.Open(files, options)
	if err != nil {
		return b.openError(err)
	}
	return errors.Join(b.checkContent(db, e), db.Close())
}

// checkContent returns an error if the files lack acknowledged changes, or have another format.
func (b *Backend) checkContent(db *pebble.DB, e *existing) error {
	format, err := readNumber(db, formatKey)
	if err != nil {
		return b.openError(err)
	}
	switch format {
	case Format:
	case 0: // a killed first start leaves no content
		if empty, err := isEmpty(db); err != nil || !empty {
			return b.openError(errors.Join(fmt.Errorf("the number of its format %w", errMissing), err))
		}
	default:
		return fmt.Errorf("the store in %s has format %d, and this version reads format %d: use the version that wrote it",
			b.o.Dir, format, Format)
	}
	last, err := readNumber(db, lastKey)
	if err == nil {
		_, err = lastHour(db) // a start reads it too, and must not fail later
	}
	if err != nil {
		return b.openError(err)
	}
	if e.acknowledged > last {
		return fmt.Errorf("the store in %s has lost changes %d to %d, which were acknowledged: its log is damaged, or "+
			"older files were put in its place; restore the last backup, or delete the file %s to go on without them",
			b.o.Dir, last+1, e.acknowledged, b.acknowledgedPath())
	}
	return nil
}

func isEmpty(db *pebble.DB) (bool, error) {
	iterator, err := db.NewIter(nil)
	if err != nil {
		return false, err
	}
	found := iterator.First()
	return !found, errors.Join(iterator.Error(), iterator.Close())
}

// readInventory returns the content of the inventory. It returns nil if
// there is no inventory: in files of an older release, and in a copy.
func readInventory(fsys vfs.FS, path string) (*fileList, error) {
	raw, err := readFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list fileList
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return nil, err
	}
	if encoded, err := list.encode(); err != nil || !bytes.Equal(encoded, raw) {
		return nil, errors.New("its digest is another one")
	}
	return &list, nil
}
