// Package behind writes the lines of a log behind the requests that they tell of: who writes one copies it and goes on, and a
// goroutine writes what has come together, in order.
//
// Memory is bounded: while the file takes nothing, lines beyond the bound are dropped and counted, so that no request ever waits for a disk.
// What a process that is killed has not written yet is lost; that is a tenth of a second.
//
// It is for processes that live on. A Lambda function is frozen when it has answered, and writes each line at once.
//
// Read this file first, then handler.go, which has what is rare written at once, and json.go, which writes lines of JSON; docs/decisions/0051-lines-behind-requests.md says
// why it is not a library's.
package behind

import (
	"io"
	"sync"
	"time"
)

// The bounds.
const (
	// interval is how long a line waits at most before it is written.
	interval = 100 * time.Millisecond
	// enough is how many bytes are written without waiting for more.
	enough = 64 << 10
	// most is how many bytes wait at most, lines that are being written left out.
	most = 4 << 20
)

// Writer is an io.Writer whose Write never waits. It is safe for concurrent use.
type Writer struct {
	to io.Writer
	// lost is told how many lines are lost since it was told last, by the writing goroutine.
	lost func(lines int)

	mu      sync.Mutex
	pending []byte
	lines   int // in pending
	dropped int
	closed  bool
	// some, many and flush wake the goroutine: there is something, there is enough, somebody waits for it.
	some, many chan struct{}
	flush      chan chan struct{}
	// closing is closed by Close, ended when all is written after that.
	closing, ended chan struct{}
}

// New begins to write to a writer. lost is told of lines that have been dropped, or that the writer did not take; it may
// write to the Writer, and must not wait for it (Flush, Handler). Close ends it.
func New(to io.Writer, lost func(lines int)) *Writer {
	w := &Writer{
		to: to, lost: lost,
		some: make(chan struct{}, 1), many: make(chan struct{}, 1), flush: make(chan chan struct{}),
		closing: make(chan struct{}), ended: make(chan struct{}),
	}
	go w.run()
	return w
}

// Write takes a line, or drops it where too many wait. It never fails: who has answered a request cannot do
// anything about it.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || len(w.pending)+len(line) > most {
		w.dropped++
		return len(line), nil
	}
	before := len(w.pending)
	w.pending = append(w.pending, line...)
	w.lines++
	if before == 0 {
		signal(w.some)
	}
	if before < enough && len(w.pending) >= enough {
		signal(w.many)
	}
	return len(line), nil
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Flush returns when all lines from before it are written.
func (w *Writer) Flush() {
	done := make(chan struct{})
	select {
	case w.flush <- done:
		<-done
	case <-w.ended:
	}
}

// Close writes what waits, and drops what comes afterwards. It may be called again.
func (w *Writer) Close() {
	w.mu.Lock()
	if !w.closed {
		w.closed = true
		close(w.closing)
	}
	w.mu.Unlock()
	<-w.ended
}

// run writes until Close.
func (w *Writer) run() {
	defer close(w.ended)
	var spare []byte
	var due <-chan time.Time
	for {
		var done chan struct{}
		end := false
		select {
		case <-w.some:
			if due == nil {
				due = time.After(interval)
			}
			continue
		case <-due:
		case <-w.many:
		case done = <-w.flush:
		case <-w.closing:
			end = true
		}
		due, spare = nil, w.write(spare)
		if done != nil {
			close(done)
		}
		if end {
			return
		}
	}
}

// write writes what waits, while spare takes what comes, and gives its memory for the next time.
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
	if dropped > 0 && w.lost != nil {
		w.lost(dropped)
	}
	if cap(batch) > 4*enough {
		return nil // what a moment's load has taken is given back
	}
	return batch
}
