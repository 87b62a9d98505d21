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

// Checkpoint copies the files, in their state at one moment, into the folder dir. dir must not exist, and
// must be in the same file system. Open accepts the copy. The copy contains each commit whole or not at
// all, and every commit that was acknowledged before the call. Commits continue meanwhile. Pebble's tables,
// which never change, are hard-linked where possible. After an error, parts of the copy may remain.
func (b *Backend) Checkpoint(ctx context.Context, dir string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	seq := b.ack.lastSeq() // read before the log is copied, because the copy must contain all changes up to seq
	err := b.db.Checkpoint(b.o.FS.PathJoin(dir, filesFolder), pebble.WithFlushedWAL())
	if err == nil {
		err = writeAcknowledged(b.o.FS, b.o.FS.PathJoin(dir, acknowledgedFile), seq)
	}
	if err != nil {
		return checkpointError(err)
	}
	return nil
}

// checkpointError returns an error that explains why the files cannot be copied: the disk accepts no copy, or a file is
// damaged.
func checkpointError(err error) error {
	err = fmt.Errorf("copy the store's files: %w", oneLine(err))
	if vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EROFS) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("%w: if it goes on, a file of the store is damaged or missing; restore the last backup into "+
		"another folder, and keep this one", err)
}

// writeAcknowledged writes the file that readAcknowledged reads.
func writeAcknowledged(fs vfs.FS, name string, seq uint64) error {
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(encodeAcknowledged(seq))
	return errors.Join(err, file.Sync(), file.Close())
}

// encodeAcknowledged returns the content of the file.
func encodeAcknowledged(seq uint64) []byte {
	raw := encodeNumber(seq)
	return binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
}
