package storetest

import (
	"context"
	"crypto/sha256"
	"io"
	"math/rand/v2"
	"testing"
)

// Random gives bytes that look random and are the same in each run of the
// test. It is not safe for concurrent use; store.Table and ids.Source guard it.
func Random(t testing.TB) io.Reader {
	return rand.NewChaCha8(sha256.Sum256([]byte(t.Name())))
}

// AtOnce is a store.Pause that does not wait, and ends with the context.
func AtOnce(ctx context.Context, _ int) error { return context.Cause(ctx) }
