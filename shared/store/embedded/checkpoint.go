package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Checkpoint copies the files, as they are at one moment, into a folder of the
// same file system, which is made and must not be there: Open takes it, and
// finds each commit whole or not at all, and every one that was answered before
// the call. Commits go on meanwhile. Tables, which never change, are linked where
// links can be made; after an error parts of the copy may be left.
func (b *Backend) Checkpoint(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	promised := b.ack.promised() // before the log is copied: the copy must hold no promise that it cannot keep
	err := b.db.Checkpoint(b.o.FS.PathJoin(dir, filesFolder), pebble.WithFlushedWAL())
	if err == nil {
		err = writeAcknowledged(b.o.FS, b.o.FS.PathJoin(dir, acknowledgedFile), promised)
	}
	if err != nil {
		return notCopied(err)
	}
	return nil
}

// notCopied explains why the files cannot be copied: the disk accepts no copy, or a file is damaged.
func notCopied(err error) error {
	err = fmt.Errorf("copy the store's files: %w", oneLine(err))
	if vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: if it goes on, a file of the store is damaged or missing; restore the last backup into another folder, and keep this one", err)
}

// writeAcknowledged makes the file that readAcknowledged reads.
func writeAcknowledged(fs vfs.FS, name string, seq uint64) error {
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(promiseOf(seq))
	return errors.Join(err, file.Sync(), file.Close())
}

// promiseOf is the content of the file.
func promiseOf(seq uint64) []byte {
	raw := number(seq)
	return binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
}
