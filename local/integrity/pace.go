package integrity

import (
	"context"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/time/rate"
)

// maxBurst is the largest number of bytes that are read at once.
const maxBurst = 1 << 20

// pace limits how fast files are read. Its waits end when its context ends.
type pace struct {
	ctx     context.Context //nolint:containedctx // a file's methods take none
	limiter *rate.Limiter   // nil for no bound
}

func newPace(ctx context.Context, bytesPerSecond int64) *pace {
	if bytesPerSecond <= 0 {
		return &pace{ctx: ctx}
	}
	return &pace{ctx, rate.NewLimiter(rate.Limit(bytesPerSecond), maxBurst)}
}

// wait blocks until n more bytes may be read.
func (p *pace) wait(n int) error {
	if p.limiter == nil {
		return context.Cause(p.ctx)
	}
	for ; n > 0; n -= maxBurst {
		if err := p.limiter.WaitN(p.ctx, min(n, maxBurst)); err != nil {
			return err
		}
	}
	return nil
}

// reader returns a reader at this pace. It hides the other methods of r, so that no caller reads without the limit.
func (p *pace) reader(r io.Reader) io.Reader { return pacedReader{r, p} }

type pacedReader struct {
	from io.Reader
	pace *pace
}

func (r pacedReader) Read(b []byte) (int, error) {
	if err := r.pace.wait(len(b)); err != nil {
		return 0, err
	}
	return r.from.Read(b)
}

// pacedFS is a file system whose files are read at a pace.
type pacedFS struct {
	vfs.FS
	pace *pace
}

// Open implements vfs.FS.
func (f pacedFS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(name, options...)
	if err != nil {
		return nil, err
	}
	return pacedFile{file, f.pace}, nil
}

type pacedFile struct {
	vfs.File
	pace *pace
}

// Read implements vfs.File.
func (f pacedFile) Read(b []byte) (int, error) { return pacedReader{f.File, f.pace}.Read(b) }

// ReadAt implements vfs.File.
func (f pacedFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.pace.wait(len(b)); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}
