package embedded

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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
	file vfs.File
	seq  uint64
}

const acknowledgedBytes = numberBytes + 4

func openAcknowledged(fs vfs.FS, name string) (*acknowledged, error) {
	file, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	a := &acknowledged{file: file}
	var raw [acknowledgedBytes]byte
	switch n, err := file.ReadAt(raw[:], 0); {
	case errors.Is(err, io.EOF) && n < acknowledgedBytes:
		return a, nil // new, or cut by a power cut
	case err != nil && !errors.Is(err, io.EOF):
		return nil, errors.Join(fmt.Errorf("read %s: %w", name, err), file.Close())
	}
	if crc32.ChecksumIEEE(raw[:numberBytes]) == binary.BigEndian.Uint32(raw[numberBytes:]) {
		a.seq = binary.BigEndian.Uint64(raw[:])
	}
	return a, nil
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
	return errors.Join(a.file.Sync(), a.file.Close())
}
