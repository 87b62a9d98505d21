package bodies

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// firstBytes is what a body takes before its first byte has arrived. Most bodies fit.
const firstBytes = 4 << 10

// Read reads a request's body to its end, which holds limit bytes at most. length is its Content-Length, -1 where that is not
// known. What Read returns counts until the request has been answered.
//
// The error is ErrBusy or ErrSlow, an *http.MaxBytesError for a body that is too large, or the body's own. After an error the
// body takes no memory, and the caller reads no more of it.
func Read(ctx context.Context, body io.Reader, length, limit int64) (out []byte, err error) {
	if length > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	most := limit + 1 // the byte that shows that there are more
	if length >= 0 {
		most = length + 1 // or that shows the end
	}
	q := of(ctx)
	if q == nil {
		size := int64(firstBytes)
		if length >= 0 {
			size = most
		}
		return read(body, nil, min(size, most), most, limit)
	}
	a := q.arrive()
	defer func() {
		if err = a.finish(err); err != nil {
			out = nil
		}
	}()
	return read(body, a, min(firstBytes, most), most, limit)
}

// read reads into a buffer that begins with size bytes, and doubles up to most. Its last step is the largest, so that no buffer of
// almost most bytes is there beside the last one.
func read(body io.Reader, a *arrival, size, most, limit int64) ([]byte, error) {
	var buffer []byte
	for {
		if len(buffer) == cap(buffer) {
			grown := max(2*int64(cap(buffer)), size)
			if int64(cap(buffer)) < most && grown > most/2 {
				grown = most
			}
			if err := a.take(grown); err != nil {
				return nil, err
			}
			buffer = append(make([]byte, 0, grown), buffer...)
			a.give(grown)
		}
		n, err := body.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		a.got(n)
		switch {
		case int64(len(buffer)) > limit:
			return nil, &http.MaxBytesError{Limit: limit}
		case errors.Is(err, io.EOF):
			return buffer, nil
		case err != nil:
			return nil, err
		}
	}
}

// arrival is a body while it is read. A nil arrival is that of a body which no budget counts.
type arrival struct {
	request *Request
	// gone is closed when the body is read, or its memory is free again.
	gone chan struct{}

	// The budget's lock guards what follows.
	taken int64 // of what the request holds
	// due is when the body falls too far behind MinRate.
	due   time.Time
	ended error // why the body was ended, nil while it may go on
	late  *time.Timer

	stopping sync.Mutex // guards finished: nobody ends the connection's next body
	finished bool
}

// arrive begins to read a body. What is read for the request after its own body is in memory: its arrival cannot be ended.
func (q *Request) arrive() *arrival {
	b := q.budget
	a := &arrival{request: q, gone: make(chan struct{}), due: time.Now().Add(Window)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if q.read {
		return a
	}
	q.read = true
	b.arriving[a] = struct{}{}
	a.late = time.AfterFunc(Window, a.check)
	return a
}

// check ends the body if it is too late, and looks again when it would be otherwise.
func (a *arrival) check() {
	b := a.request.budget
	b.mu.Lock()
	_, arriving := b.arriving[a]
	left := time.Until(a.due)
	switch {
	case !arriving || a.ended != nil:
	case left > 0:
		a.late.Reset(left)
	default:
		a.ended = ErrSlow
		defer a.stop()
	}
	b.mu.Unlock()
}

// stop ends the body, if it is still read.
func (a *arrival) stop() {
	a.stopping.Lock()
	defer a.stopping.Unlock()
	if !a.finished {
		a.request.end()
	}
}

// finish ends the arrival. It returns err, or what ended the body, and gives back what the body took if there is an error.
func (a *arrival) finish(err error) error {
	b := a.request.budget
	b.mu.Lock()
	delete(b.arriving, a)
	if a.late != nil {
		a.late.Stop()
	}
	if a.ended != nil { // even if the body has arrived meanwhile: somebody waits for its memory
		err = a.ended
	}
	if err != nil {
		b.add(a.request, -a.taken)
		a.taken = 0
	}
	b.mu.Unlock()
	a.stopping.Lock()
	a.finished = true
	a.stopping.Unlock()
	close(a.gone)
	return err
}

// take takes n bytes for a buffer, beside those of the one that it replaces.
func (a *arrival) take(n int64) error {
	if a == nil {
		return nil
	}
	b := a.request.budget
	if err := b.take(a.request, a, n); err != nil {
		return err
	}
	b.mu.Lock()
	a.taken += n
	b.mu.Unlock()
	return nil
}

// give gives back all but n bytes: the buffer that was replaced.
func (a *arrival) give(n int64) {
	if a == nil {
		return
	}
	b := a.request.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(a.request, n-a.taken)
	a.taken = n
}

// got notes that n bytes have arrived: the body has so much more time, and never more than Window.
func (a *arrival) got(n int) {
	if a == nil || n == 0 {
		return
	}
	b := a.request.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	a.due = a.due.Add(time.Duration(n) * time.Second / MinRate)
	if most := time.Now().Add(Window); a.due.After(most) {
		a.due = most
	}
}
