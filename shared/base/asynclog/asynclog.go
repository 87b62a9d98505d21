// Package asynclog writes log lines asynchronously. The goroutine that serves a request
// only copies its line. Another goroutine writes the collected lines, in order.
//
// Memory is bounded: while the file accepts no data, lines beyond the bound are dropped and counted, so that no request
// waits for a disk. When a process is killed, its unwritten lines are lost: usually those of the last tenth of a
// second.
//
// The package is for long-running processes. A Lambda function is frozen after its response, and has to write each line
// immediately.
//
// Read this file first, then handler.go, which writes rare records immediately, and json.go, which writes lines of
// JSON. docs/decisions/0051-lines-behind-requests.md explains why this is not a library.
package asynclog

import (
	"io"
	"sync"
	"time"
)

// The bounds.
const (
	// interval is the maximum time that a line waits before it is written, while the file accepts data.
	interval = 100 * time.Millisecond
	// flushThreshold is the number of waiting bytes that are written without waiting for interval to end.
	flushThreshold = 64 << 10
	// maxPending is the maximum number of waiting bytes. Lines that are being written do not count.
	maxPending = 4 << 20
)

// Writer is an io.Writer whose Write never blocks. It is safe for concurrent use.
type Writer struct {
	to io.Writer
	// onDrop is called by the writing goroutine with the number of lines that were lost since the last call.
	onDrop func(lines int)

	mu      sync.Mutex
	pending []byte
	lines   int // number of lines in pending
	dropped int
	closed  bool
	// nonEmpty, batchReady and flush wake the writing goroutine: because the first line is waiting, because
	// flushThreshold bytes are waiting, or because Flush was called.
	nonEmpty, batchReady chan struct{}
	flush                chan chan struct{}
	// Close closes the channel closing. The writing goroutine closes done after it has written the last lines.
	closing, done chan struct{}
}

// New returns a Writer whose goroutine writes the lines to another writer until Close is called. It calls onDrop with
// the number of lines that were dropped or could not be written. onDrop can write to the Writer, but must not wait for
// it (Flush, Handler).
func New(to io.Writer, onDrop func(lines int)) *Writer {
	w := &Writer{
		to: to, onDrop: onDrop,
		nonEmpty: make(chan struct{}, 1), batchReady: make(chan struct{}, 1), flush: make(chan chan struct{}),
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	go w.run()
	return w
}

// Write appends a line. It drops the line if too many bytes are waiting, or after Close. It never fails, since the
// caller could not do anything about an error.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.pending)+len(line) > maxPending {
		w.dropped++
		return len(line), nil
	}
	before := len(w.pending)
	w.pending = append(w.pending, line...)
	w.lines++
	if before == 0 {
		signal(w.nonEmpty)
	}
	if before < flushThreshold && len(w.pending) >= flushThreshold {
		signal(w.batchReady)
	}
	return len(line), nil
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Flush makes the Writer write all waiting lines now, and returns when they are written.
func (w *Writer) Flush() {
	done := make(chan struct{})
	select {
	case w.flush <- done:
		<-done
	case <-w.done:
	}
}

// Close writes the waiting lines and drops later ones. It can be called more than once.
func (w *Writer) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
	}
	w.mu.Unlock()
	<-w.done
}

// run writes the waiting lines when they are due, until Close is called.
func (w *Writer) run() {
	defer close(w.done)
	var spare []byte
	var due <-chan time.Time
	for {
		var done chan struct{}
		closed := false
		select {
		case <-w.nonEmpty:
			if due == nil {
				due = time.After(interval)
			}
			continue
		case <-due:
		case <-w.batchReady:
		case done = <-w.flush:
		case <-w.closing:
			closed = true
		}
		due, spare = nil, w.write(spare)
		if done != nil {
			close(done)
		}
		if closed {
			return
		}
	}
}

// write writes the waiting lines. Meanwhile, new lines are collected in spare. write returns the buffer that the next
// call can use as spare.
func (w *Writer) write(spare []byte) []byte {
	w.mu.Lock()
	batch, lines, dropped := w.pending, w.lines, w.dropped
	w.pending, w.lines, w.dropped = spare[:0], 0, 0
	w.mu.Unlock()
	if len(batch) > 0 {
		if _, err := w.to.Write(batch); err != nil {
			dropped += lines
		}
	}
	if dropped > 0 && w.onDrop != nil {
		w.onDrop(dropped)
	}
	if cap(batch) > 4*flushThreshold {
		return nil // free the memory of a short load peak
	}
	return batch
}
