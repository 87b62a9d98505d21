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

// acknowledged is a file of its own that tells up to which change answers were
// given. Pebble takes a log whose last part is damaged for one that ended there,
// as after a power cut, and drops what follows; with this number a start sees
// that more was promised.
//
// It is written after the log's fsync and has none itself: after a kill it is
// exact, after a power cut it may be older than the log, never newer.
type acknowledged struct {
	mu   sync.Mutex
	file vfs.File // nil if the files are read-only
	seq  uint64
}

const acknowledgedBytes = numberBytes + 4

// readAcknowledged returns the number of the last acknowledged change, or 0 if the file is missing or a power cut has cut it short.
// It reports a file whose content does not match its checksum as damaged.
func readAcknowledged(files vfs.FS, name string) (promised uint64, damaged bool, err error) {
	raw, err := readFile(files, name)
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

// promise notes that the changes up to seq are answered.
func (a *acknowledged) promise(seq uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq <= a.seq {
		return nil
	}
	a.seq = seq
	_, err := a.file.WriteAt(promiseOf(seq), 0)
	return err
}

// promised is the last change that was answered.
func (a *acknowledged) promised() uint64 {
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
