package policy

import (
	"errors"
	"io"
	"slices"
	"sync"
)

// recordedBody records the beginning of a body while the body is forwarded,
// without delaying it. It calls done once, when the body has ended or is closed.
type recordedBody struct {
	io.ReadCloser
	limit int64
	once  sync.Once
	done  func(data []byte)
	// reserve reports whether n more bytes of memory can be used; nil means always.
	// If it returns false, the recorded bytes are dropped, and no more are recorded.
	reserve func(n int64) bool

	mu   sync.Mutex // a body can be closed while it is read: HTTP/2 does that after an early response
	data []byte
	// dropped is set if there was no memory for the bytes. ended is set when the body was read to its end.
	dropped, ended bool
}

// Read implements io.Reader.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.record(p[:n])
	if err != nil {
		b.mu.Lock()
		b.ended = b.ended || errors.Is(err, io.EOF)
		b.mu.Unlock()
		b.finish()
	}
	return n, err
}

// Close implements io.Closer.
func (b *recordedBody) Close() error {
	err := b.ReadCloser.Close()
	b.finish()
	return err
}

func (b *recordedBody) record(read []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	remaining := b.limit - int64(len(b.data))
	if remaining <= 0 {
		return
	}
	read = read[:min(int64(len(read)), remaining)]
	before := cap(b.data)
	grown := slices.Grow(b.data, len(read))
	if b.reserve != nil && cap(grown) > before && !b.reserve(int64(cap(grown)-before)) {
		b.data, b.limit, b.dropped = nil, 0, true
		return
	}
	b.data = append(grown, read...)
}

func (b *recordedBody) finish() {
	b.once.Do(func() {
		b.mu.Lock()
		data := b.data
		b.mu.Unlock()
		b.done(data)
	})
}
