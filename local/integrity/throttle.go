package integrity

import (
	"context"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"
)

// maxBurst is the maximum number of bytes that may be read without waiting.
const maxBurst = 1 << 20

// throttle limits the rate at which files are read. When ctx ends, reads fail.
type throttle struct {
	ctx     context.Context //nolint:containedctx // the methods of files have no context parameter
	limiter *rate.Limiter   // nil for no limit
}

func newThrottle(ctx context.Context, bytesPerSecond int64) *throttle {
	if bytesPerSecond <= 0 {
		return &throttle{ctx: ctx}
	}
	return &throttle{ctx, rate.NewLimiter(rate.Limit(bytesPerSecond), maxBurst)}
}

// wait blocks until the limit allows n more bytes.
func (t *throttle) wait(n int) error {
	if t.limiter == nil {
		return context.Cause(t.ctx)
	}
	for ; n > 0; n -= maxBurst {
		if err := t.limiter.WaitN(t.ctx, min(n, maxBurst)); err != nil {
			return err
		}
	}
	return nil
}

// reader returns a reader that limits the rate of r. It has only
// the method Read, so that no caller reads without the limit.
func (t *throttle) reader(r io.Reader) io.Reader { return throttledReader{r, t} }

type throttledReader struct {
	from     io.Reader
	throttle *throttle
}

func (t throttledReader) Read(b []byte) (int, error) {
	if err := t.throttle.wait(len(b)); err != nil {
		return 0, err
	}
	return t.from.Read(b)
}

// throttledFS is a file system that limits the read rate.
type throttledFS struct {
	vfs.FS
	throttle *throttle
}

// Open implements vfs.FS.
func (t throttledFS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	file, err := t.FS.Open(name, options...)
	if err != nil {
		return nil, err
	}
	return throttledFile{file, t.throttle}, nil
}

type throttledFile struct {
	vfs.File
	throttle *throttle
}

// Read implements vfs.File.
func (t throttledFile) Read(b []byte) (int, error) {
	return throttledReader{t.File, t.throttle}.Read(b)
}

// ReadAt implements vfs.File.
func (t throttledFile) ReadAt(b []byte, off int64) (int, error) {
	if err := t.throttle.wait(len(b)); err != nil {
		return 0, err
	}
	return t.File.ReadAt(b, off)
}
