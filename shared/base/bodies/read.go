package bodies

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// firstBytes is the memory in bytes that a body takes before its first byte has arrived. Most bodies fit into it.
const firstBytes = 4 << 10

// Read reads a request's body to its end. limit is the maximum size of the body in bytes. length is its
// Content-Length, or -1 if that is not known. The returned bytes count toward the budget until the response to the
// request has been sent.
//
// The error is ErrBusy or ErrSlow, an *http.MaxBytesError for a body that is too large, or the error that body.Read
// returned. After an error the body takes no memory, and the caller must not continue to read it.
func Read(ctx context.Context, body io.Reader, length, limit int64) (out []byte, err error) {
	if length > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	maxBytes := limit + 1 // one more byte shows that the body is too large
	if length >= 0 {
		maxBytes = length + 1 // one more byte for the read that returns the end
	}
	q := fromContext(ctx)
	if q == nil {
		size := int64(firstBytes)
		if length >= 0 {
			size = maxBytes
		}
		return read(body, nil, min(size, maxBytes), maxBytes, limit)
	}
	u := q.startUpload()
	defer func() {
		if err = u.finish(err); err != nil {
			out = nil
		}
	}()
	return read(body, u, min(firstBytes, maxBytes), maxBytes, limit)
}

// read reads the body into a buffer. size is the size of the first buffer in bytes. The size of the buffer doubles up
// to maxBytes. A buffer that would be larger than half of maxBytes gets maxBytes at once, so that there are never two
// buffers of almost maxBytes.
func read(body io.Reader, u *upload, size, maxBytes, limit int64) ([]byte, error) {
	var buffer []byte
	for {
		if len(buffer) == cap(buffer) {
			newCap := max(2*int64(cap(buffer)), size)
			if int64(cap(buffer)) < maxBytes && newCap > maxBytes/2 {
				newCap = maxBytes
			}
			if err := u.reserve(newCap); err != nil {
				return nil, err
			}
			buffer = append(make([]byte, 0, newCap), buffer...)
			u.release(newCap)
		}
		n, err := body.Read(buffer[len(buffer):cap(buffer)])
		buffer = buffer[:len(buffer)+n]
		u.received(n)
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

// upload is a body while it is read. A nil upload is a body that no budget counts.
type upload struct {
	request *Request
	// done is closed when the body has been read, or its memory is free again.
	done chan struct{}

	// The budget's lock guards the fields below.
	reserved int64 // number of bytes that the body takes
	// deadline is the time at which the body is too slow, if no more bytes arrive until then.
	deadline time.Time
	meter    rateMeter
	err      error // why the body was aborted, nil while it can continue
	timer    *time.Timer

	stopMu   sync.Mutex // guards finished, so that stop never ends the connection's next body
	finished bool
}

// startUpload begins to read a body. Later reads of the same request read copies in memory, and cannot be aborted.
func (r *Request) startUpload() *upload {
	b := r.budget
	now := time.Now()
	u := &upload{request: r, done: make(chan struct{}), deadline: now.Add(Window), meter: newRateMeter(now)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.bodyRead {
		return u
	}
	r.bodyRead = true
	b.uploads[u] = struct{}{}
	u.timer = time.AfterFunc(Window, u.check)
	return u
}

// check aborts the body if its deadline has passed. Otherwise it runs again at the deadline.
func (u *upload) check() {
	b := u.request.budget
	b.mu.Lock()
	_, active := b.uploads[u]
	remaining := time.Until(u.deadline)
	switch {
	case !active || u.err != nil:
	case remaining > 0:
		u.timer.Reset(remaining)
	default:
		u.err = ErrSlow
		defer u.stop()
	}
	b.mu.Unlock()
}

// stop aborts the body if it is still being read.
func (u *upload) stop() {
	u.stopMu.Lock()
	defer u.stopMu.Unlock()
	if !u.finished {
		u.request.abort()
	}
}

// finish ends the upload. It returns the reason why the body was aborted, or err if it was not. If it returns an error,
// it frees the body's memory.
func (u *upload) finish(err error) error {
	b := u.request.budget
	b.mu.Lock()
	delete(b.uploads, u)
	if u.timer != nil {
		u.timer.Stop()
	}
	if u.err != nil { // even if the body has arrived meanwhile: another body waits for its memory
		err = u.err
	}
	if err != nil {
		b.add(u.request, -u.reserved)
		u.reserved = 0
	}
	b.mu.Unlock()
	u.stopMu.Lock()
	u.finished = true
	u.stopMu.Unlock()
	close(u.done)
	return err
}

// reserve takes n bytes for a buffer, in addition to the bytes of the buffer that it replaces.
func (u *upload) reserve(n int64) error {
	if u == nil {
		return nil
	}
	b := u.request.budget
	if err := b.reserve(u.request, u, n); err != nil {
		return err
	}
	b.mu.Lock()
	u.reserved += n
	b.mu.Unlock()
	return nil
}

// release frees all but n bytes of the body's memory. n is the size of the new buffer: release frees the buffer that it
// has replaced.
func (u *upload) release(n int64) {
	if u == nil {
		return
	}
	b := u.request.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(u.request, n-u.reserved)
	u.reserved = n
}

// received extends the body's deadline for n bytes that have arrived, to at most Window from now.
func (u *upload) received(n int) {
	if u == nil || n == 0 {
		return
	}
	b := u.request.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	u.meter.add(n, now)
	u.deadline = u.deadline.Add(time.Duration(n) * time.Second / MinRate)
	if latest := now.Add(Window); u.deadline.After(latest) {
		u.deadline = latest
	}
}
