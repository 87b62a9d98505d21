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
// are the form of the files, feed.go the stream, housekeeping.go what is deleted,
// engine.go is how Pebble is opened and what it reports, errors.go the texts of its errors, acknowledged.go how a damaged log is noticed, watch.go what operators are told, place.go that the files are gone, checkpoint.go what backups copy. Why Pebble:
// docs/decisions/0031-pebble-is-the-embedded-engine.md.
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
	// flushError is that of the last flush, as Pebble's lock guards it.
	flushError error
	// opened is set once Pebble has opened the files.
	opened atomic.Bool
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
)

// ErrInUse is what Open answers while another process has the files.
var ErrInUse = errors.New("the store is in use by another process")

// Open opens the files or makes them. Its errors say what to do. What runs in the
// background ends with Close, and not with ctx.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if o.FS == nil {
		o.FS = vfs.Default
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
	var err error
	if !o.ReadOnly {
		err = makeFolder(o.FS, files)
	}
	if err != nil {
		return nil, fmt.Errorf("the store's folder %s cannot be made: %w: make it writable, or name another data directory", o.Dir, err)
	}
	switch b.lock, err = pebble.LockDirectory(files, o.FS); {
	case errors.Is(err, fs.ErrNotExist): // of one that is only read
		return nil, fmt.Errorf("there is no store in %s: %w", o.Dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return nil, fmt.Errorf("the store's folder %s cannot be written to: %w: make it writable, or name another data directory", o.Dir, err)
	case err != nil:
		return nil, fmt.Errorf("%w (%s): stop it first, or name another data directory: %w", ErrInUse, o.Dir, err)
	}
	options := b.pebbleOptions()
	defer options.Cache.Unref()
	if err := b.checkEngine(files); err != nil {
		_ = b.lock.Close()
		return nil, err
	}
	if err := b.openEngine(files, options); err != nil {
		_ = b.lock.Close()
		return nil, b.notOpened(err)
	}
	if err := b.recover(); err != nil {
		_ = errors.Join(b.db.Close(), b.lock.Close()) // nothing was written that would be lost
		return nil, err
	}
	if !o.ReadOnly {
		b.jobs.Go(b.keepHouse)
	}
	return b, nil
}

// makeFolder makes a folder, and those around it, so that a power cut takes none
// of them back.
func makeFolder(fs vfs.FS, path string) error {
	var around []string // of the folders that are not there yet
	for at := path; ; at = fs.PathDir(at) {
		if _, err := fs.Stat(at); err == nil || fs.PathDir(at) == at {
			break
		}
		around = append(around, fs.PathDir(at))
	}
	if err := fs.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, at := range around {
		dir, err := fs.OpenDir(at)
		if err != nil {
			return err
		}
		if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
			return err
		}
	}
	return nil
}

// recover reads where the last process ended.
func (b *Backend) recover() error {
	if err := b.remember(); err != nil {
		return err
	}
	if err := b.checkFormat(); err != nil {
		return err
	}
	last, err := b.number(lastKey)
	if err != nil {
		return fmt.Errorf("read the store's last change: %w", err)
	}
	b.seq = last
	if b.hour, err = b.lastHour(); err != nil {
		return err
	}
	b.flights.durable(last)
	if b.ack, err = openAcknowledged(b.o.FS, b.o.FS.PathJoin(b.o.Dir, acknowledgedFile)); err != nil {
		return err
	}
	if promised := b.ack.seq; promised > last {
		return fmt.Errorf("the store in %s has lost changes %d to %d, which were answered: its log is damaged, or older files were put in its place; restore the last backup, or delete the file %s to go on without them",
			b.o.Dir, last+1, promised, b.o.FS.PathJoin(b.o.Dir, acknowledgedFile))
	}
	return nil
}

// Format is the version of layout.go and codec.go: what this package writes, and the one that it reads.
const Format = 1

func (b *Backend) checkFormat() error {
	found, err := b.number(formatKey)
	if err != nil {
		return fmt.Errorf("read the store's format: %w", err)
	}
	switch found {
	case Format:
		return nil
	case 0:
		if err := b.db.Set(formatKey, number(Format), pebble.Sync); err != nil {
			return b.notOpened(err)
		}
		return nil
	}
	return fmt.Errorf("the store in %s has format %d, and this version reads format %d: use the version that wrote it", b.o.Dir, found, Format)
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
		err = fmt.Errorf("the store in %s cannot be written to: %w: what was answered before is safe; see that its disk has room and is writable, and start again", b.o.Dir, err)
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
func (b *Backend) number(key []byte) (uint64, error) {
	value, closer, err := b.db.Get(key)
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
