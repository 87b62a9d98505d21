// Package embedded keeps the table in files of this process: a store.Backend
// over Pebble, with DynamoDB's transactions, tokens, conditions, pages, due
// index, stream and deletion by ttl, and without a server.
//
// What it holds: a commit that was answered is on disk (its fsync is shared with
// those that come at the same time); it is there whole or not at all after any
// crash; and nothing is read, or told by the feed, that a power cut could take
// back. One process has the files. What DynamoDB refuses, and what it bills, is
// package store's, which package memory shares (store.Effects, Query.Answer); the
// suite of package store holds all three to the same answers.
//
// What it is not: a cluster. One machine has the data, and `make backup` is
// what survives that machine.
//
// Read embedded.go first, then commit.go and query.go. layout.go and codec.go
// are the form of the files, feed.go the stream, housekeeping.go what is deleted.
// A start goes through existing.go, which checks the files before it changes
// anything, inventory.go, which lists the files that the next start must find,
// acknowledged.go, which holds the last acknowledged change, and engine.go,
// which opens Pebble and receives its messages. verify.go reads all tables,
// watch.go measures commits, place.go notices that the files are gone, and
// checkpoint.go copies them for backups. Why Pebble:
// docs/decisions/0031-pebble-is-the-embedded-engine.md; why a list of its files:
// docs/decisions/0071-the-store-lists-the-files-of-its-engine.md.
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

	"github.com/gatewright/gatewright/shared/disk"
	"github.com/gatewright/gatewright/shared/store"
)

// Backend is a store.Backend over a folder. It is safe for concurrent use.
type Backend struct {
	o     Options
	db    *pebble.DB
	ack   *acknowledged
	lock  *pebble.Lock
	mark  fs.FileInfo // of the lock's file, as it was made
	calls calls
	life  context.Context //nolint:containedctx // ends what runs in the background
	end   context.CancelFunc
	jobs  sync.WaitGroup

	closing sync.Once
	closed  error
	// opening receives the error of a flush while Pebble opens the files.
	opening chan error
	// flushError is the error of the last flush. Pebble's lock guards it.
	flushError error
	// opened is set once Pebble has opened the files.
	opened atomic.Bool
	// damagedFiles are the files that were logged as damaged.
	damagedFiles sync.Map
	// broken holds why nothing can be written any more, once that is so.
	broken atomic.Pointer[error]
	// told hears of commits (Watch), nil for nobody.
	told atomic.Pointer[func(time.Duration)]

	// mu is held from a commit's conditions until its effects can be read, and
	// not while its fsync is waited for.
	mu sync.Mutex
	// seq is that of the last change that can be read.
	seq uint64
	// hour is the last one, in hours since 1970, whose first change is noted.
	hour int64

	flights   flights
	forgotten forgotten     // the housekeeping's own
	wake      chan struct{} // a commit has an item that expires before alarm
	alarm     atomic.Int64  // when the housekeeping looks next, in seconds since 1970
}

var _ store.Backend = (*Backend)(nil)

// Options are what a Backend takes from outside.
type Options struct {
	// Dir is the folder of the files, which is made. Nothing else may lie there.
	Dir string
	// FS is the file system; nil means the machine's.
	FS vfs.FS
	// ReadOnly opens files that are there to look at them: they stay as they are,
	// and nothing may be written.
	ReadOnly bool
	// MemTableBytes is the size of the table in memory. Pebble flushes it when it is full. 0 means 8 MiB.
	MemTableBytes int
	// Now is the clock of ttl attributes and of the feed; nil means time.Now.
	Now func() time.Time
	// Log hears what the engine has to say; nil means nobody.
	Log *slog.Logger
	// Fatal is called, once, when nothing can be written any more: the disk is
	// full, gone or read-only. Every later call fails; what was answered before is
	// safe. The process should end with the error, which says what to do; the
	// function must not call the Backend.
	Fatal func(error)
}

// What lies in the folder.
const (
	filesFolder      = "pebble"
	acknowledgedFile = "acknowledged"
	inventoryFile    = "inventory"
)

// ErrInUse is what Open answers while another process has the files.
var ErrInUse = errors.New("the store is in use by another process")

// Open opens the files or makes them. Its errors say what to do. What runs in the
// background ends with Close, and not with ctx.
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
	b := &Backend{o: o, wake: make(chan struct{}, 1), opening: make(chan error, 1)}
	b.life, b.end = context.WithCancel(context.WithoutCancel(ctx))
	b.flights.begin()
	files := o.FS.PathJoin(o.Dir, filesFolder)
	if err := b.lockFiles(files); err != nil {
		return nil, err
	}
	if err := b.openFiles(files); err != nil {
		_ = b.lock.Close()
		return nil, err
	}
	if !o.ReadOnly {
		b.jobs.Go(b.keepHouse)
	}
	return b, nil
}

// lockFiles makes the folder of a new store, and locks it.
func (b *Backend) lockFiles(files string) error {
	var err error
	if _, absent := b.o.FS.Stat(files); errors.Is(absent, fs.ErrNotExist) && !b.o.ReadOnly {
		if _, err := b.survey(files); err != nil {
			return err
		}
		err = makeFolder(b.o.FS, files)
	}
	if err != nil {
		return fmt.Errorf("the store's folder %s cannot be made: %w: make it writable, or name another data directory", b.o.Dir, err)
	}
	switch b.lock, err = pebble.LockDirectory(files, b.o.FS); {
	case errors.Is(err, fs.ErrNotExist): // the store is opened read-only
		return fmt.Errorf("there is no store in %s: %w", b.o.Dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the store's folder %s cannot be written to: %w: make it writable, or name another data directory", b.o.Dir, err)
	case outOf(err), errors.Is(err, syscall.EIO):
		return b.notOpened(err)
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
	found, err := b.survey(files)
	if err == nil && !found.isNew() && !b.o.ReadOnly {
		err = b.rehearse(files, found)
	}
	if err != nil {
		return err
	}
	b.ack = &acknowledged{seq: found.promised}
	disk, err := b.prepare(files, found)
	if err != nil {
		return b.notOpened(errors.Join(err, b.ack.close()))
	}
	options := b.pebbleOptions(disk)
	defer options.Cache.Unref()
	options.ErrorIfNotExists = !found.isNew()
	if err := b.openEngine(files, options); err != nil {
		return b.notOpened(errors.Join(err, b.ack.close()))
	}
	if b.o.ReadOnly {
		err = b.checkContent(b.db, found)
	}
	if err == nil {
		err = b.resume()
	}
	if err != nil {
		_ = errors.Join(b.db.Close(), b.ack.close()) // no write would be lost
	}
	return err
}

// prepare checks that the disk takes what a start writes, and returns the file system on which Pebble works.
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
	return takeStock(b.o.FS, files, b.inventoryPath(), found.listed())
}

func (b *Backend) acknowledgedPath() string { return b.o.FS.PathJoin(b.o.Dir, acknowledgedFile) }
func (b *Backend) inventoryPath() string    { return b.o.FS.PathJoin(b.o.Dir, inventoryFile) }

// resume reads where the last process ended.
func (b *Backend) resume() error {
	if err := b.remember(); err != nil {
		return err
	}
	if !b.o.ReadOnly {
		if err := b.noteFormat(); err != nil {
			return b.notOpened(err)
		}
	}
	last, err := b.number(lastKey)
	if err != nil {
		return damaged(fmt.Errorf("read the store's last change: %w", err))
	}
	b.seq = last
	if b.hour, err = lastHour(b.db); err != nil {
		return err
	}
	b.flights.durable(last)
	return nil
}

// Format is the version of layout.go and codec.go: what this package writes, and the one that it reads.
const Format = 1

// noteFormat writes the format of a new store.
func (b *Backend) noteFormat() error {
	found, err := b.number(formatKey)
	if err != nil || found != 0 {
		return err
	}
	return b.db.Set(formatKey, number(Format), pebble.Sync)
}

// engineMarker is what Pebble calls the file whose name says which of its formats the files have.
const engineMarker = "format-version"

// checkEngine refuses the files of a newer engine. Pebble refuses them as well, by an error without
// a type, which would be taken for damage: the advice to restore a backup would cost what was written since.
func (b *Backend) checkEngine(files string) error {
	text, err := atomicfs.ReadMarker(b.o.FS, files, engineMarker)
	if err != nil {
		return b.notOpened(err)
	}
	found, _ := strconv.ParseUint(text, 10, 64) // 0 where there is none yet, or none that Pebble would read either
	if found <= uint64(pebble.FormatNewest) {
		return nil
	}
	return fmt.Errorf("the engine's files in %s have format %d, and this version reads formats to %d: use the version that wrote them", b.o.Dir, found, pebble.FormatNewest)
}

// Close waits for the calls under way and what runs in the background, and closes
// the files. Later calls answer ErrClosed; a second Close answers what the first did.
// It has no error of its own once Fatal was told what is wrong.
func (b *Backend) Close() error {
	b.closing.Do(func() {
		b.end()
		b.calls.end()
		b.jobs.Wait()
		if err := errors.Join(b.ack.close(), b.db.Close(), b.lock.Close()); err != nil && b.usable() == nil {
			b.closed = fmt.Errorf("close the store: %w", err)
		}
	})
	return b.closed
}

// fail notes that nothing can be written any more, and gives the error for who asked.
func (b *Backend) fail(err error) error {
	if errors.Is(err, errMoved) {
		err = fmt.Errorf("the store in %s is not there any more: %w, and nothing was answered since: put them back, or restore the last backup, and start again", b.o.Dir, err)
	} else {
		todo := "see that its disk has room and is writable"
		if outOf(err) {
			todo = disk.Refusal(err)
		}
		err = fmt.Errorf("the store in %s cannot be written to: %w: what was answered before is safe; %s, and start again", b.o.Dir, err, todo)
	}
	if b.broken.CompareAndSwap(nil, &err) {
		b.o.Fatal(err)
	}
	return b.usable()
}

// usable answers ErrLost once nothing can be written any more.
func (b *Backend) usable() error {
	if err := b.broken.Load(); err != nil {
		return fmt.Errorf("%w: %w", store.ErrLost, *err)
	}
	return nil
}

// number reads one of the engine's own numbers, 0 for none.
func (b *Backend) number(key []byte) (uint64, error) { return numberIn(b.db, key) }

func numberIn(db *pebble.DB, key []byte) (uint64, error) {
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
