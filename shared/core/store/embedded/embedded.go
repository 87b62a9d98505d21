// Package embedded keeps the table in files of this process. It is a store.Backend over Pebble, with DynamoDB's
// transactions, tokens, conditions, pages, due index, stream and deletion by ttl, and without a server.
//
// An acknowledged commit is on disk (concurrent commits share an fsync). After a crash the store has each commit whole
// or not at all. No read and no record of the feed shows data that a power cut could revert. Only one process can use
// the files. The limits and prices of DynamoDB are in package store, which package memory uses too (store.Effects,
// Query.ReadPage). The test suite of package store tests that all three backends return the same results.
//
// The package is not a cluster. The data is on one machine, and
// only a backup (`make backup`) survives the loss of that machine.
//
// Read embedded.go first, then commit.go and query.go. layout.go and codec.go define the format of the files, feed.go
// is the stream, and housekeeping.go deletes expired data. Four files implement a start. existing.go checks the
// store's files before anything changes. inventory.go lists the files that the next start must find. acknowledged.go
// stores the number of the last acknowledged change. engine.go opens Pebble and receives its messages. verify.go
// checks all of Pebble's tables, watch.go measures commits, moved.go detects that the files were removed or moved,
// and checkpoint.go copies the files for backups. Why Pebble: docs/decisions/0031-pebble-is-the-embedded-engine.md;
// why a list of its files: docs/decisions/0071-the-store-lists-the-files-of-its-engine.md.
package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Backend is a store.Backend whose data is in a folder. It is safe for concurrent use.
type Backend struct {
	o          Options
	db         *pebble.DB
	ack        *acknowledged
	lock       *pebble.Lock
	lockInfo   fs.FileInfo // of the lock file when the store was opened
	calls      calls
	ctx        context.Context //nolint:containedctx // of the background work
	cancel     context.CancelFunc
	background sync.WaitGroup

	closeOnce sync.Once
	closeErr  error
	// openErr receives the error of a flush while Pebble opens the files.
	openErr chan error
	// flushErr is the error of the last flush. Pebble's lock guards it.
	flushErr error
	// opened is set once Pebble has opened the files.
	opened atomic.Bool
	// corruptFiles has the files that were logged as damaged.
	corruptFiles sync.Map
	// fatalErr is the reason why nothing can be written any more, nil while writing works.
	fatalErr atomic.Pointer[error]
	// onCommit is the function to call with the duration of each commit (Watch), nil if there is none.
	onCommit atomic.Pointer[func(time.Duration)]

	// mu is held from the check of a commit's conditions until its effects are readable, but not during the wait for
	// its fsync.
	mu sync.Mutex
	// seq is at least the number of the last readable change. The next change has a greater number.
	seq uint64
	// hour is the last hour, in hours since 1970, whose first change is recorded.
	hour int64

	pending     pendingCommits
	deleted     deletedUpTo   // used only by the housekeeping
	wake        chan struct{} // signals that a commit wrote an item that expires before nextCleanup
	nextCleanup atomic.Int64  // the next run of the housekeeping, in seconds since 1970
}

var _ store.Backend = (*Backend)(nil)

// Options configure a Backend.
type Options struct {
	// Dir is the folder of the files. Open creates it, except with ReadOnly. It must contain nothing else.
	Dir string
	// FS is the file system; nil means the machine's.
	FS vfs.FS
	// ReadOnly opens existing files for reading. They do not change, and writes are not allowed.
	ReadOnly bool
	// MemTableBytes is the size of Pebble's memtable, which Pebble flushes to disk when it is full. 0 means 8 MiB.
	MemTableBytes int
	// Now is the clock of ttl attributes, tokens and the feed; nil means time.Now.
	Now func() time.Time
	// Log receives the engine's messages; nil discards them.
	Log *slog.Logger
	// Fatal is called once when nothing can be written any more: the disk is full, removed or read-only, or the
	// files were moved or removed. Every later call fails. Acknowledged commits are safe unless their files were
	// removed. The process should end with the error, which says what to do. The function must not call the Backend.
	Fatal func(error)
}

// These are the names of files and folders in Dir.
const (
	filesFolder      = "pebble"
	acknowledgedFile = "acknowledged"
	inventoryFile    = "inventory"
)

// ErrInUse is the error of Open while another process uses the files.
var ErrInUse = errors.New("the store is in use by another process")

// Open opens the files, or creates them. Its errors say what to do. The background work ends with Close, not with ctx.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = memTableBytes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Fatal == nil {
		o.Fatal = func(error) {}
	}
	b := &Backend{o: o, wake: make(chan struct{}, 1), openErr: make(chan error, 1)}
	b.ctx, b.cancel = context.WithCancel(context.WithoutCancel(ctx))
	b.pending.init()
	files := o.FS.PathJoin(o.Dir, filesFolder)
	if err := b.lockFiles(files); err != nil {
		return nil, err
	}
	if err := b.openFiles(files); err != nil {
		_ = b.lock.Close()
		return nil, err
	}
	if !o.ReadOnly {
		b.background.Go(b.runHousekeeping)
	}
	return b, nil
}

// lockFiles locks the folder of Pebble's files. It creates the folder first if the store is new.
func (b *Backend) lockFiles(files string) error {
	var err error
	if _, statErr := b.o.FS.Stat(files); errors.Is(statErr, fs.ErrNotExist) && !b.o.ReadOnly {
		if _, err := b.inspect(files); err != nil { // the store is not new: only this folder is missing
			return err
		}
		err = makeFolder(b.o.FS, files)
	}
	if err != nil {
		return fmt.Errorf("the store's folder %s cannot be made: %w: make it writable, or name another data directory",
			b.o.Dir, err)
	}
	switch b.lock, err = pebble.LockDirectory(files, b.o.FS); {
	case errors.Is(err, fs.ErrNotExist): // the store is opened read-only
		return fmt.Errorf("there is no store in %s: %w", b.o.Dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the store's folder %s cannot be written to: %w: make it writable, or name another data directory",
			b.o.Dir, err)
	case resourceExhausted(err), errors.Is(err, syscall.EIO):
		return b.openError(err)
	case err != nil:
		return fmt.Errorf("%w (%s): stop it first, or name another data directory: %w", ErrInUse, b.o.Dir, err)
	}
	return nil
}

// openFiles checks the files, and opens them. It does not change files that it refuses.
func (b *Backend) openFiles(files string) error {
	if err := b.checkEngine(files); err != nil {
		return err
	}
	found, err := b.inspect(files)
	if err == nil && !found.isNew() && !b.o.ReadOnly {
		err = b.verifyReadOnly(files, found)
	}
	if err != nil {
		return err
	}
	b.ack = &acknowledged{seq: found.acknowledged}
	fileSystem, err := b.prepare(files, found)
	if err != nil {
		return b.openError(errors.Join(err, b.ack.close()))
	}
	options := b.pebbleOptions(fileSystem)
	defer options.Cache.Unref()
	options.ErrorIfNotExists = !found.isNew()
	if err := b.openEngine(files, options); err != nil {
		return b.openError(errors.Join(err, b.ack.close()))
	}
	if b.o.ReadOnly {
		err = b.checkContent(b.db, found)
	}
	if err == nil {
		err = b.restoreState()
	}
	if err != nil {
		_ = errors.Join(b.db.Close(), b.ack.close()) // ignore these errors: there is no write that could be lost
	}
	return err
}

// prepare checks that the disk accepts the writes of a start, opens the file of b.ack, and returns the file system for
// Pebble. If the store is read-only, it does only the last.
func (b *Backend) prepare(files string, found *existing) (vfs.FS, error) {
	if b.o.ReadOnly {
		return b.o.FS, nil
	}
	if err := b.probe(files); err != nil {
		return nil, err
	}
	var err error
	if b.ack.file, err = b.o.FS.OpenReadWrite(b.acknowledgedPath(), vfs.WriteCategoryUnspecified); err != nil {
		return nil, err
	}
	return newInventory(b.o.FS, files, b.inventoryPath(), found.listedFiles())
}

func (b *Backend) acknowledgedPath() string { return b.o.FS.PathJoin(b.o.Dir, acknowledgedFile) }
func (b *Backend) inventoryPath() string    { return b.o.FS.PathJoin(b.o.Dir, inventoryFile) }

// restoreState reads the number of the last change and the last hour, as the previous process left them.
// It also records the identity of the lock file, and writes the format of a new store.
func (b *Backend) restoreState() error {
	if err := b.recordLockInfo(); err != nil {
		return err
	}
	if !b.o.ReadOnly {
		if err := b.recordFormat(); err != nil {
			return b.openError(err)
		}
	}
	last, err := b.number(lastKey)
	if err != nil {
		return readError(fmt.Errorf("read the store's last change: %w", err))
	}
	b.seq = last
	if b.hour, err = lastHour(b.db); err != nil {
		return err
	}
	b.pending.setDurable(last)
	return nil
}

// Format is the version of the format in layout.go and codec.go: this package writes and reads only this version.
const Format = 1

// recordFormat writes the format of a new store.
func (b *Backend) recordFormat() error {
	found, err := b.number(formatKey)
	if err != nil || found != 0 {
		return err
	}
	return b.db.Set(formatKey, encodeNumber(Format), pebble.Sync)
}

// engineMarker is the name of Pebble's marker for the format version
// of its files. The name of the marker's file ends with the version.
const engineMarker = "format-version"

// checkEngine refuses the files of a newer engine. Pebble also refuses them, but with an untyped error
// that would look like damage: the operator would then restore a backup and lose everything written since.
func (b *Backend) checkEngine(files string) error {
	text, err := atomicfs.ReadMarker(b.o.FS, files, engineMarker)
	if err != nil {
		return b.openError(err)
	}
	found, _ := strconv.ParseUint(text, 10, 64) // 0 if there is no marker that Pebble would read
	if found <= uint64(pebble.FormatNewest) {
		return nil
	}
	return fmt.Errorf("the engine's files in %s have format %d, and this version reads formats to %d: use the version "+
		"that wrote them", b.o.Dir, found, pebble.FormatNewest)
}

// Close waits for the calls in progress and the background work, and closes the files. Later calls return ErrClosed.
// A second Close returns the result of the first Close. Close returns no error if Fatal has already reported one.
func (b *Backend) Close() error {
	b.closeOnce.Do(func() {
		b.cancel()
		b.calls.drain()
		b.background.Wait()
		if err := errors.Join(b.ack.close(), b.db.Close(), b.lock.Close()); err != nil && b.usable() == nil {
			b.closeErr = fmt.Errorf("close the store: %w", err)
		}
	})
	return b.closeErr
}

// fail records that nothing can be written any more, and returns the error for the caller. The first call also calls
// Options.Fatal.
func (b *Backend) fail(err error) error {
	if errors.Is(err, errMoved) {
		err = fmt.Errorf("the store in %s is not there any more: %w, and nothing was answered since: put them back, or "+
			"restore the last backup, and start again", b.o.Dir, err)
	} else {
		advice := "see that its disk has room and is writable"
		if resourceExhausted(err) {
			advice = disk.AccessAdvice(err)
		}
		err = fmt.Errorf("the store in %s cannot be written to: %w: what was answered before is safe; %s, and start again",
			b.o.Dir, err, advice)
	}
	if b.fatalErr.CompareAndSwap(nil, &err) {
		b.o.Fatal(err)
	}
	return b.usable()
}

// usable returns an error that wraps ErrOutcomeUnknown if nothing can be written any more.
func (b *Backend) usable() error {
	if err := b.fatalErr.Load(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, *err)
	}
	return nil
}

// number reads the number at a key, such as the format or the mark of a reader. It returns 0 if the key does not exist.
func (b *Backend) number(key []byte) (uint64, error) { return readNumber(b.db, key) }

func readNumber(db *pebble.DB, key []byte) (uint64, error) {
	value, closer, err := db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer func() { _ = closer.Close() }()
	if len(value) != numberBytes {
		return 0, fmt.Errorf("a number of %d bytes", len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}
