package bodies

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// firstBytes is how much memory a body takes before its first byte has arrived. Most bodies fit.
const firstBytes = 4 << 10

// Read reads a request's body to its end. The body has limit bytes at most. length is its Content-Length, or -1 if that is not
// known. The bytes that Read returns count until the request has been answered.
//
// The error is ErrBusy or ErrSlow, an *http.MaxBytesError for a body that is too large, or the body's own. After an error the
// body takes no memory, and the caller reads no more of it.
func Read(ctx context.Context, body io.Reader, length, limit int64) (out []byte, err error) {
	if length > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	most := limit + 1 // one byte more shows that the body is too large
	if length >= 0 {
		most = length + 1 // room for the read that returns the end
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

// read reads into a buffer that begins with size bytes, and doubles up to most. The last step is the largest, so that there are
// never two buffers of almost most bytes.
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

// arrival is a body while it is read. A nil arrival is a body that no budget counts.
type arrival struct {
	request *Request
	// gone is closed when the body has been read, or its memory is free again.
	gone chan struct{}

	// The budget's lock guards what follows.
	taken int64 // bytes that the body takes
	// due is the time at which the body falls too far behind MinRate.
	due   time.Time
	pace  pace
	ended error // why the body was ended, nil while it may go on
	late  *time.Timer

	stopping sync.Mutex // guards finished, so that stop never ends the connection's next body
	finished bool
}

// arrive begins to read a body. Later reads of the same request are of copies in memory, and cannot be ended.
func (q *Request) arrive() *arrival {
	b := q.budget
	now := time.Now()
	a := &arrival{request: q, gone: make(chan struct{}), due: now.Add(Window), pace: newPace(now)}
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

// check ends the body if it is too late. Otherwise it checks again when the body is due.
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

// finish ends the arrival. It returns err, or the reason why the body was ended. If there is an error, it gives back the body's memory.
func (a *arrival) finish(err error) error {
	b := a.request.budget
	b.mu.Lock()
	delete(b.arriving, a)
	if a.late != nil {
		a.late.Stop()
	}
	if a.ended != nil { // even if the body has arrived meanwhile: another body waits for its memory
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

// take takes n bytes for a buffer, in addition to the bytes of the buffer that it replaces.
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

// give gives back all but n bytes, which are those of the replaced buffer.
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

// got gives the body the time for n bytes that have arrived: the body never has more than Window.
func (a *arrival) got(n int) {
	if a == nil || n == 0 {
		return
	}
	b := a.request.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	a.pace.add(n, now)
	a.due = a.due.Add(time.Duration(n) * time.Second / MinRate)
	if most := now.Add(Window); a.due.After(most) {
		a.due = most
	}
}
