package inspection

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
)

// endlessBucket is a bucket whose objects open immediately and never end.
type endlessBucket struct {
	installation.Bucket
	open atomic.Int64 // the number of open objects
}

func (*endlessBucket) Head(context.Context, string) (blob.Object, error) { return blob.Object{}, nil }

func (b *endlessBucket) Get(ctx context.Context, _, _ string, _ int64) (io.ReadCloser, blob.Object, error) {
	b.open.Add(1)
	return &endlessReader{func() error { <-ctx.Done(); return ctx.Err() }, b}, blob.Object{}, nil
}

type endlessReader struct {
	wait   func() error
	bucket *endlessBucket
}

func (e *endlessReader) Read([]byte) (int, error) { return 0, e.wait() }

func (e *endlessReader) Close() error {
	e.bucket.open.Add(-1)
	return nil
}

// TestConcurrentArchiveReadsAreLimited checks that a request returns Throttled if its deadline ends while too many
// archives are being read, and that the end of a read frees its slot.
func TestConcurrentArchiveReadsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bucket := &endlessBucket{}
		s := Service{bucket: bucket, excerptSlots: make(chan struct{}, maxConcurrentExcerpts)}
		readExcerpt := func(timeout time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := s.excerpt(ctx, "sources/a", SourceLocator{})
			return err
		}
		done := make(chan error, maxConcurrentExcerpts)
		for range maxConcurrentExcerpts {
			go func() { done <- readExcerpt(2 * time.Minute) }()
		}
		synctest.Wait()
		if err := readExcerpt(time.Minute); !fault.Is(err, fault.Throttled) || bucket.open.Load() != maxConcurrentExcerpts {
			t.Errorf("excerpt over the limit: error = %v with %d archives open, want %v and %d",
				err, bucket.open.Load(), fault.Throttled, maxConcurrentExcerpts)
		}
		for range maxConcurrentExcerpts {
			if err := <-done; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("excerpt of an endless archive: error = %v, want %v", err, context.DeadlineExceeded)
			}
		}
		if err := readExcerpt(time.Minute); !errors.Is(err, context.DeadlineExceeded) || bucket.open.Load() != 0 {
			t.Errorf("excerpt after the others: error = %v with %d archives open, want %v and 0",
				err, bucket.open.Load(), context.DeadlineExceeded)
		}
	})
}
