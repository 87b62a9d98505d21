// Package syncbuffer collects text that a test reads while more is written: the output of a child process, or a log. A
// test can wait for a line by reading the text again and again.
//
// It is for tests and for programs that measure. The product prints with packages asynclog and terminal. This is the only file.
package syncbuffer

import (
	"bytes"
	"sync"
)

// Text collects everything that is written to it. Its zero value is empty. It is safe for concurrent use.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer, and never fails.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String returns the text that has been written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
