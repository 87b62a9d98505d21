package inspection

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
)

// slow is a bucket whose objects come at once, and never end.
type slow struct {
	installation.Bucket
	open atomic.Int64
}

func (*slow) Head(context.Context, string) (blob.Object, error) { return blob.Object{}, nil }

func (s *slow) Get(ctx context.Context, _, _ string, _ int64) (io.ReadCloser, blob.Object, error) {
	s.open.Add(1)
	return &endless{func() error { <-ctx.Done(); return ctx.Err() }, s}, blob.Object{}, nil
}

type endless struct {
	wait func() error
	from *slow
}

func (e *endless) Read([]byte) (int, error) { return 0, e.wait() }

func (e *endless) Close() error {
	e.from.open.Add(-1)
	return nil
}

// TestFewArchivesAreReadAtOnce: a file of each may be in memory. Who waits as long as the request may take is told to ask again, and an
// archive that is read no more makes room.
func TestFewArchivesAreReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &slow{}
		s := Service{bucket: bucket, excerpts: make(chan struct{}, excerptsAtOnce)}
		ask := func(within time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			_, err := s.excerpt(ctx, "sources/a", SourceAt{})
			return err
		}
		ended := make(chan error, excerptsAtOnce)
		for range excerptsAtOnce {
			go func() { ended <- ask(2 * time.Minute) }()
		}
		synctest.Wait()
		if err := ask(time.Minute); !fault.Is(err, fault.Throttled) || bucket.open.Load() != excerptsAtOnce {
			t.Errorf("one more is answered %v, and %d are read", err, bucket.open.Load())
		}
		for range excerptsAtOnce {
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if err := ask(time.Minute); !errors.Is(err, context.DeadlineExceeded) || bucket.open.Load() != 0 {
			t.Errorf("after them one is answered %v, and %d are open", err, bucket.open.Load())
		}
	})
}
