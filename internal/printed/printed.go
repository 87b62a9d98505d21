// Package printed keeps what is printed or logged while somebody reads it: a child's outputs, a log that a test waits for.
//
// It is for tests and for programs that measure. What the product prints goes by packages behind and terminal.
// There is only this file.
package printed

import (
	"bytes"
	"sync"
)

// Text is all that has been written to it. Its zero value has nothing. It is safe for concurrent use.
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

// String is what has been written so far.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}
