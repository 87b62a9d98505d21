package seal_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/seal"
)

// keyService is a Wrapper that wraps by turning bits round.
type keyService struct {
	mu      sync.Mutex
	made    byte
	unwraps int
	down    error
	slow    time.Duration
}

func (k *keyService) Generate(context.Context) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.made++
	return invert(bytes.Repeat([]byte{k.made}, seal.KeyBytes)), k.down
}

func (k *keyService) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(k.slow):
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unwraps++
	return invert(wrapped), k.down
}

func invert(b []byte) []byte {
	out := slices.Clone(b)
	for i := range out {
		out[i] = ^out[i]
	}
	return out
}

// keyStore is a KeyStore in memory.
type keyStore struct {
	mu    sync.Mutex
	kept  []byte
	reads int
	down  error
	// before runs once, between a Load that found nothing and its answer.
	before func()
}

func (s *keyStore) Load(context.Context) (*seal.StoredRing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	kept := s.kept
	if f := s.before; f != nil {
		s.before = nil
		f()
	}
	return ringOf(kept), s.down
}

// ringOf is the ring of a first root key, nil for none.
func ringOf(wrapped []byte) *seal.StoredRing {
	if wrapped == nil {
		return nil
	}
	return &seal.StoredRing{Writing: 1, Roots: []seal.StoredRoot{{Number: 1, Wrapped: wrapped}}}
}

func (s *keyStore) Create(_ context.Context, wrapped []byte) (*seal.StoredRing, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept == nil {
		s.kept = wrapped
	}
	return ringOf(s.kept), s.down
}

func TestRootKeyIsMadeOnceForAllProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, s := &keyService{slow: time.Millisecond}, &keyStore{}
		var wg sync.WaitGroup
		keys := make([][]byte, 20)
		for process := range 4 {
			w := seal.NewWrapped(service, s, time.Hour, time.Now)
			for i := range 5 {
				wg.Go(func() {
					key, err := w.Root(t.Context())
					if err != nil {
						t.Error(err)
					}
					keys[process*5+i] = key
				})
			}
		}
		wg.Wait()
		for i, key := range keys {
			if !bytes.Equal(key, keys[0]) {
				t.Errorf("caller %d has another key", i)
			}
		}
		if service.unwraps != 4 {
			t.Errorf("unwrapped %d times, want once a process", service.unwraps)
		}
	})
}

func TestProcessThatComesSecondTakesTheFirstOnesKey(t *testing.T) {
	service, s := &keyService{}, &keyStore{}
	first := invert(bytes.Repeat([]byte{99}, seal.KeyBytes))
	s.before = func() { s.kept = first }
	key, err := seal.NewWrapped(service, s, time.Hour, time.Now).Root(t.Context())
	if err != nil || !bytes.Equal(key, invert(first)) {
		t.Errorf("took %v, %v", key, err)
	}
}

func TestRootKeyIsAskedForAgainAfterItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, s := &keyService{}, &keyStore{}
		w := seal.NewWrapped(service, s, time.Hour, time.Now)
		sealer := seal.NewSealer(w)
		sealed, err := sealer.Seal(t.Context(), []byte("text"), "record")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour - time.Nanosecond)
		if _, err := sealer.Open(t.Context(), sealed, "record"); err != nil {
			t.Fatal(err)
		}
		if service.unwraps != 1 || s.reads != 1 {
			t.Errorf("%d unwraps and %d reads within the age, want 1 and 1", service.unwraps, s.reads)
		}
		time.Sleep(time.Nanosecond)
		if opened, err := sealer.Open(t.Context(), sealed, "record"); err != nil || string(opened) != "text" {
			t.Fatalf("opened as %q, %v", opened, err)
		}
		if service.unwraps != 2 || s.reads != 2 {
			t.Errorf("%d unwraps and %d reads after the age, want 2 and 2", service.unwraps, s.reads)
		}
		time.Sleep(time.Hour)
		service.down = errSource
		if _, err := sealer.Open(t.Context(), sealed, "record"); !errors.Is(err, errSource) {
			t.Errorf("a disabled key still opens: %v", err)
		}
	})
}

func TestWaitForTheRootKeyEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := &keyService{slow: time.Minute}
		w := seal.NewWrapped(service, &keyStore{}, time.Hour, time.Now)
		go func() { _, _ = w.Root(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := w.Root(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("answered %v", err)
		}
		if waited := time.Since(start); waited != time.Second {
			t.Errorf("waited %v behind another caller, want 1s", waited)
		}
		time.Sleep(time.Minute)
	})
}

func TestFailureOfWrapperOrKeyStoreIsNotRemembered(t *testing.T) {
	service, s := &keyService{}, &keyStore{down: errSource}
	w := seal.NewWrapped(service, s, time.Hour, time.Now)
	if _, err := w.Root(t.Context()); !errors.Is(err, errSource) {
		t.Errorf("answered %v with the key store down", err)
	}
	s.down, service.down = nil, errSource
	if _, err := w.Root(t.Context()); !errors.Is(err, errSource) {
		t.Errorf("answered %v with the wrapper down", err)
	}
	if s.kept != nil {
		t.Error("a key was kept that nobody could unwrap")
	}
	service.down = nil
	if _, err := w.Root(t.Context()); err != nil {
		t.Errorf("answered %v with both up again", err)
	}
}
