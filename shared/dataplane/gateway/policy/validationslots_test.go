package policy

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"golang.org/x/sync/semaphore"
)

// TestCheckSlots checks that large bodies wait for each other, and small ones do not: without the bound, the values of a
// hundred bodies of 1 MiB took 4 GB.
func TestCheckSlots(t *testing.T) {
	t.Parallel()
	s := checkSlots{semaphore.NewWeighted(slotBytes)}
	release, err := s.acquire(t.Context(), 10*slotBytes)
	if err != nil {
		t.Fatalf("acquire(10 slots) = %v, want no error: a body counts with one slot at most", err)
	}
	if _, ok := s.tryAcquire(smallBody + 1); ok {
		t.Error("tryAcquire(more than a small body) = true while another body is checked, want false")
	}
	if _, ok := s.tryAcquire(smallBody); !ok {
		t.Error("tryAcquire(a small body) = false while another body is checked, want true")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.acquire(ended, slotBytes); !errors.Is(err, context.Canceled) {
		t.Errorf("acquire(canceled context) = %v, want %v", err, context.Canceled)
	}
	release()
	if _, ok := s.tryAcquire(slotBytes); !ok {
		t.Error("tryAcquire() = false after the other body was checked, want true")
	}
}

// TestCompressedBodiesCountWithTheirMaximumSize checks that a compressed response takes the slots of the largest body that
// it can become.
func TestCompressedBodiesCountWithTheirMaximumSize(t *testing.T) {
	t.Parallel()
	for encoding, want := range map[string]int{"": 3, "identity": 3, "gzip": maxValidatedResponse} {
		if got := checkedSize(http.Header{"Content-Encoding": {encoding}}, []byte("abc")); got != want {
			t.Errorf("checkedSize(%q, 3 bytes) = %d, want %d", encoding, got, want)
		}
	}
}
