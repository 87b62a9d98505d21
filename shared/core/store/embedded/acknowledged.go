package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// acknowledged writes a file with the number of the last acknowledged change. If the end of
// Pebble's log is damaged, Pebble assumes that the log ends there, as after a power cut, and
// drops the rest. With this number a start detects that acknowledged changes are missing.
//
// The file is written after the log's fsync, and only close syncs it. After a kill
// it is exact; after a power cut it can be older than the log, but never newer.
type acknowledged struct {
	mu   sync.Mutex
	file vfs.File // nil if the files are read-only
	seq  uint64
}

const acknowledgedBytes = numberBytes + 4

// readAcknowledged returns the number of the last acknowledged change, or 0 if the file is missing or a power cut has
// cut it short. It reports a file whose content does not match its checksum as damaged.
func readAcknowledged(fsys vfs.FS, name string) (seq uint64, damaged bool, err error) {
	raw, err := readFile(fsys, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(raw) < acknowledgedBytes:
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("read %s: %w", name, err)
	case crc32.ChecksumIEEE(raw[:numberBytes]) != binary.BigEndian.Uint32(raw[numberBytes:]):
		return 0, true, nil
	}
	return binary.BigEndian.Uint64(raw), false, nil
}

// advance records in the file that the changes up to seq are acknowledged. It does not sync the file.
func (a *acknowledged) advance(seq uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq <= a.seq {
		return nil
	}
	a.seq = seq
	_, err := a.file.WriteAt(encodeAcknowledged(seq), 0)
	return err
}

// lastSeq returns the number of the last acknowledged change.
func (a *acknowledged) lastSeq() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seq
}

func (a *acknowledged) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.file == nil {
		return nil
	}
	return errors.Join(a.file.Sync(), a.file.Close())
}
