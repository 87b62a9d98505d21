package storetest

import (
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"
)

// Random returns a source of bytes that look random and are the same in each run of the test.
// The source is not safe for concurrent use; store.Table and ids.Source guard it.
func Random(t testing.TB) io.Reader {
	return rand.NewChaCha8(sha256.Sum256([]byte(t.Name())))
}

// NoBackoff is a store.BackoffFunc that does not wait. It returns an error when the context has ended.
func NoBackoff(ctx context.Context, _ int) error { return context.Cause(ctx) }
