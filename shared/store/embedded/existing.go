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

	"github.com/gatewright/gatewright/shared/disk"
)

// existing describes the files that a start finds in the folder, before it changes anything.
type existing struct {
	names    []string // of Pebble's files
	list     *contents
	promised uint64 // the last acknowledged change
	manifest string // the manifest that the marker names, "" for none
	marker   string // the marker's file
}

// errMissing and errChanged say what is wrong with a file.
var (
	errMissing = errors.New("is missing")
	errChanged = errors.New("is damaged")
)

// survey reads the names and lists of files, and refuses files from which Pebble would silently serve less than was stored. It
// changes nothing.
func (b *Backend) survey(files string) (*existing, error) {
	e := &existing{}
	var err error
	if e.names, err = b.o.FS.List(files); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, b.notOpened(err)
	}
	var lost bool
	if e.promised, lost, err = readAcknowledged(b.o.FS, b.acknowledgedPath()); err != nil {
		return nil, b.notOpened(err)
	}
	if lost {
		b.o.Log.Warn("a file of the store is damaged: this start cannot tell whether the end of the log is missing; the next one can", "file", b.acknowledgedPath())
	}
	switch e.list, err = readInventory(b.o.FS, b.inventoryPath()); {
	case disk.Refusal(err) != "":
		return nil, b.notOpened(err)
	case err != nil:
		return nil, fmt.Errorf("the file %s %w (%s): restore the last backup, or delete this file to start without its checks", b.inventoryPath(), errChanged, oneLine(err).Error())
	}
	e.marker, e.manifest = newestMarker(e.names)
	if e.list != nil && e.olderReleaseWrote() {
		e.list = nil
	}
	if e.list == nil && !e.isNew() {
		b.o.Log.Info("the store has no valid list of its files, as after a release without this list or after a restore: this start checks less", "file", b.inventoryPath())
	}
	if err := e.check(b.o.FS, files); err != nil {
		return nil, b.notOpened(err)
	}
	return e, nil
}

// isNew reports whether nothing was ever stored. A killed first start may have left files without content.
func (e *existing) isNew() bool { return e.manifest == "" }

// listed returns the list, which is empty if there is none.
func (e *existing) listed() contents {
	if e.list == nil {
		return contents{}
	}
	return *e.list
}

// olderReleaseWrote reports whether a release that keeps no list has opened the files since the list was written. Each of its
// starts moves the marker to a new manifest, and removes the marker that is listed.
func (e *existing) olderReleaseWrote() bool {
	listed, _ := newestMarker(slices.Collect(maps.Keys(e.list.Files)))
	return listed != "" && !slices.Contains(e.names, listed) && markerNumber(e.marker) > markerNumber(listed)
}

func (e *existing) check(files vfs.FS, dir string) error {
	if e.list != nil {
		if err := checkLengths(e.list.Files, e.names, files, dir); err != nil {
			return err
		}
	}
	if e.isNew() {
		if e.promised > 0 || slices.ContainsFunc(e.names, func(name string) bool {
			return strings.HasSuffix(name, logEnding) || strings.HasSuffix(name, tableEnding)
		}) {
			return fmt.Errorf("its file %s… %w", manifestMarker, errMissing)
		}
		return nil
	}
	raw, err := readFile(files, files.PathJoin(dir, e.manifest))
	if err != nil {
		return fmt.Errorf("read its file %s: %w", e.manifest, err)
	}
	if e.list != nil {
		if p, ok := e.list.Manifests[e.manifest]; ok {
			return p.check(e.manifest, raw)
		}
	}
	return checkRecords(e.manifest, raw)
}

// checkLengths refuses a folder without one of the listed files, or with a log that has been cut since it was closed.
func checkLengths(listed map[string]int64, names []string, files vfs.FS, dir string) error {
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("its file %s %w", name, errMissing)
		}
		info, err := files.Stat(files.PathJoin(dir, name))
		if err != nil {
			return fmt.Errorf("look at its file %s: %w", name, err)
		}
		if info.Size() < listed[name] {
			return fmt.Errorf("its file %s %w: it has %d bytes, and %d were written", name, errChanged, info.Size(), listed[name])
		}
	}
	return nil
}

// check compares a manifest with its length and digest in the list.
func (p prefix) check(name string, raw []byte) error {
	if int64(len(raw)) < p.Bytes {
		return fmt.Errorf("its file %s %w: it has %d bytes of %d", name, errChanged, len(raw), p.Bytes)
	}
	if sum := sha256.Sum256(raw[:p.Bytes]); hex.EncodeToString(sum[:]) != p.SHA256 {
		return fmt.Errorf("its file %s %w: its content is not what was written", name, errChanged)
	}
	return nil
}

// checkRecords reads a manifest that is not listed: the manifest of an older release, or of a copy. A kill or a power cut may have cut
// its last record short, or left zeros in its place. Any other unreadable record is damage.
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
		case errors.Is(err, record.ErrZeroedChunk) && zeros(raw[min(records.Offset(), int64(len(raw))):]):
			return nil
		default:
			return fmt.Errorf("its file %s %w: %s", name, errChanged, oneLine(err).Error())
		}
	}
}

func zeros(raw []byte) bool { return len(bytes.Trim(raw, "\x00")) == 0 }

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
	n, _ := strconv.ParseUint(number, 10, 64) // 0 for none
	return n
}

// rehearse opens an existing store read-only and checks it, so that a refused store does not change: Pebble's own start writes the
// log into tables and removes it.
func (b *Backend) rehearse(files string, e *existing) error {
	options := b.pebbleOptions(b.o.FS)
	defer options.Cache.Unref()
	options.ReadOnly, options.ErrorIfNotExists = true, true
	db, err := pebble.Open(files, options)
	if err != nil {
		return b.notOpened(err)
	}
	return errors.Join(b.checkContent(db, e), db.Close())
}

// checkContent refuses files that lack acknowledged changes, or have another format.
func (b *Backend) checkContent(db *pebble.DB, e *existing) error {
	format, err := numberIn(db, formatKey)
	if err != nil {
		return b.notOpened(err)
	}
	switch format {
	case Format:
	case 0: // a killed first start leaves no content
		if empty, err := isEmpty(db); err != nil || !empty {
			return b.notOpened(errors.Join(fmt.Errorf("the number of its format %w", errMissing), err))
		}
	default:
		return fmt.Errorf("the store in %s has format %d, and this version reads format %d: use the version that wrote it", b.o.Dir, format, Format)
	}
	last, err := numberIn(db, lastKey)
	if err == nil {
		_, err = lastHour(db) // a start reads it, too
	}
	if err != nil {
		return b.notOpened(err)
	}
	if e.promised > last {
		return fmt.Errorf("the store in %s has lost changes %d to %d, which were acknowledged: its log is damaged, or older files were put in its place; restore the last backup, or delete the file %s to go on without them",
			b.o.Dir, last+1, e.promised, b.acknowledgedPath())
	}
	return nil
}

func isEmpty(db *pebble.DB) (bool, error) {
	all, err := db.NewIter(nil)
	if err != nil {
		return false, err
	}
	found := all.First()
	return !found, errors.Join(all.Error(), all.Close())
}

// readInventory returns the list, or nil if there is none: in files of an older release, and in a copy.
func readInventory(files vfs.FS, path string) (*contents, error) {
	raw, err := readFile(files, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var list contents
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&list); err != nil {
		return nil, err
	}
	if whole, err := list.encode(); err != nil || !bytes.Equal(whole, raw) {
		return nil, errors.New("its digest is another one")
	}
	return &list, nil
}
