package supervise

import (
	"bytes"
	"fmt"
	"os"
	"sync"
)

// Log is a log file with a limited size. When the file is full, it is renamed with the suffix ".1", which
// replaces the previous file of that name, and a new file is created. It is safe for concurrent use.
type Log struct {
	path     string
	maxBytes int64

	mu   sync.Mutex
	file *os.File
	size int64
	last []byte
}

// maxLine is the maximum number of bytes that Last returns.
const maxLine = 500

// OpenLog opens or creates the file at path, readable only by
// its owner. The two files have at most maxBytes bytes each.
func OpenLog(path string, maxBytes int64) (*Log, error) {
	l := &Log{path: path, maxBytes: maxBytes}
	if err := l.open(); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Log) open() error {
	file, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open a log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return fmt.Errorf("open a log: %w", err)
	}
	l.file, l.size = file, info.Size()
	return nil
}

// Write appends p. It never returns an error, because a full disk must not end a child that writes a message.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if line := lastLine(p); len(line) > 0 {
		l.last = append(l.last[:0], line[:min(len(line), maxLine)]...)
	}
	if l.file == nil {
		return len(p), nil
	}
	if l.size+int64(len(p)) > l.maxBytes {
		_ = l.file.Close()
		l.file = nil
		_ = os.Rename(l.path, l.path+".1")
		if err := l.open(); err != nil {
			return len(p), nil
		}
	}
	n, _ := l.file.Write(p[:min(int64(len(p)), l.maxBytes)])
	l.size += int64(n)
	return len(p), nil
}

// Last returns the first maxLine bytes of the last non-empty line that was written with this Log.
func (l *Log) Last() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.last)
}

// Close closes the file. Later writes are lost.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := l.file.Close()
	l.file = nil
	return err
}

func lastLine(p []byte) []byte {
	p = bytes.TrimRight(p, "\r\n \t")
	return p[bytes.LastIndexByte(p, '\n')+1:]
}
