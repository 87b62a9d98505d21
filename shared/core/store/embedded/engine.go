package embedded

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// engineFormat is the version of Pebble's own files. It is the newest version that Pebble v1 reads. The
// previous release uses Pebble v1, and a release writes only formats that the previous release can read.
const engineFormat = pebble.FormatVirtualSSTables

// These constants determine Pebble's use of memory. An idle product should need little memory. A product with a
// million consumers keeps its working set in the page cache of the system. Pebble reserves memory for its memtables
// in the block cache, and has several memtables under load. With a cache of 32 MB and memtables of 16 MB, no memory
// was left for blocks: creating 100,000 consumers took 7.8 s of processor time for reading blocks, instead of 1.9 s.
const (
	blockCacheBytes    = 64 << 20
	readOnlyCacheBytes = 8 << 20
	memTableBytes      = 8 << 20
	openFiles          = 500 // the maximum number
	bloomBits          = 10  // for each key
)

func (b *Backend) pebbleOptions(fileSystem vfs.FS) *pebble.Options {
	o := &pebble.Options{
		FS: fileSystem, Lock: b.lock, ReadOnly: b.o.ReadOnly, Cache: pebble.NewCache(b.o.cacheBytes()),
		MemTableSize: uint64(max(b.o.MemTableBytes, 0)), MaxOpenFiles: openFiles,
		FormatMajorVersion: engineFormat,
		Logger:             log{b},
		EventListener:      log{b}.events(),
	}
	addBloomFilters(o)
	return o
}

// cacheBytes returns the size of the block cache. A read-only store
// needs little, because it is read once from beginning to end.
func (o Options) cacheBytes() int64 {
	if o.ReadOnly {
		return readOnlyCacheBytes
	}
	return blockCacheBytes
}

// openEngine opens Pebble's files. While it opens them, Pebble writes the changes in its log into
// tables. If the disk accepts no writes, Pebble would retry forever. Instead, openEngine then
// returns the disk's error. Pebble's goroutines wait, and keep the lock, until the process ends.
func (b *Backend) openEngine(files string, options *pebble.Options) error {
	type result struct {
		db  *pebble.DB
		err error
	}
	opened := make(chan result, 1)
	go func() {
		db, err := pebble.Open(files, options)
		opened <- result{db, err}
	}()
	select {
	case r := <-opened:
		b.db = r.db
		b.opened.Store(r.err == nil)
		return r.err
	case err := <-b.openErr:
		return err
	}
}

// probeFile is a file that probe writes and removes before Pebble opens the files.
const probeFile = "probe"

// probe returns an error if the disk accepts no file, or lacks the
// space for the tables that Pebble writes from its log at a start.
func (b *Backend) probe(files string) (err error) {
	names, err := b.o.FS.List(files)
	if err != nil {
		return err
	}
	size := int64(4096)
	for _, name := range names {
		if info, err := b.o.FS.Stat(b.o.FS.PathJoin(files, name)); err == nil && strings.HasSuffix(name, ".log") {
			size += info.Size()
		}
	}
	path := b.o.FS.PathJoin(files, probeFile)
	file, err := b.o.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.o.FS.Remove(path)) }()
	err = file.Preallocate(0, size)
	if err == nil {
		_, err = file.Write(make([]byte, 1))
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// log receives Pebble's messages and events.
type log struct{ b *Backend }

var _ pebble.Logger = log{}

// Errorf implements pebble.Logger. It logs errors for debugging only,
// because a caller or an event also receives each error that matters.
func (l log) Errorf(format string, args ...any) { l.Infof(format, args...) }

// Infof implements pebble.Logger.
func (l log) Infof(format string, args ...any) {
	l.b.o.Log.Debug("the store's engine", "says", fmt.Sprintf(format, args...))
}

// events returns listeners that log when Pebble begins and ends to write tables, which slows down commits, and when
// commits have to wait for these writes. They also receive Pebble's errors.
func (l log) events() *pebble.EventListener {
	return &pebble.EventListener{
		FlushBegin: func(i pebble.FlushInfo) { l.Infof("%s", i) }, FlushEnd: l.flushed,
		CompactionBegin: func(i pebble.CompactionInfo) {
			l.Infof("%s", i)
		}, CompactionEnd: func(i pebble.CompactionInfo) { l.Infof("%s", i) },
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) {
			l.Infof("%s", i)
		}, WriteStallEnd: func() { l.Infof("write stall ending") },
		BackgroundError: l.failed, DataCorruption: l.corrupted,
	}
}

// flushed stores the error of a flush. Pebble also reports an error if there was nothing to flush.
func (l log) flushed(i pebble.FlushInfo) {
	l.Infof("%s", i)
	l.b.flushErr = i.Err
}

// failed is called with the errors of flushes and compactions. Pebble would retry a failed flush immediately and
// forever, while commits continue until the log cannot be written either. The log has all acknowledged changes, so the
// store stops at the first error of a flush. Other errors are only logged.
func (l log) failed(err error) {
	l.Infof("background error: %s", err)
	switch {
	case l.b.flushErr == nil || !errors.Is(err, l.b.flushErr):
	case l.b.opened.Load():
		_ = l.b.fail(err)
	default:
		l.b.openErr <- err
		select {} // Open returns the error, and Pebble must not repeat this flush
	}
}

// corrupted is called when a call reads a damaged block. That call returns an error, and other calls
// continue. Without this method Pebble would end the process. Each damaged file is logged once.
func (l log) corrupted(i pebble.DataCorruptionInfo) {
	if _, logged := l.b.corruptFiles.LoadOrStore(i.Path, true); logged {
		return
	}
	l.b.o.Log.Error("a file of the store is damaged: restore the last backup into another folder, and keep this one",
		"file", i.Path, "error", oneLine(i.Details))
}

// Fatalf implements pebble.Logger. Pebble calls it when it cannot write its log or its manifest.
func (l log) Fatalf(format string, args ...any) {
	_ = l.b.fail(fmt.Errorf(format, args...))
}
