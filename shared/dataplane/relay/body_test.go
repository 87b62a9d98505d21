package relay_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
)

// TestBodyBelongsToOneAttempt reads, closes and replaces attempts in any order, like
// transports in their own goroutines. It checks that only the last attempt can read, that
// WasRead reports whether an attempt has read, and that the client's body is closed only after all attempts.
func TestBodyBelongsToOneAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inner := &closeCounter{Reader: strings.NewReader(strings.Repeat("x", 100))}
		b := relay.NewBody(&http.Request{Body: inner})
		type attempt struct {
			io.ReadCloser
			closed bool
		}
		attempts := []*attempt{{ReadCloser: b.Next()}}
		read := func(a *attempt) bool {
			_, err := a.Read(make([]byte, 1))
			if err != nil && !errors.Is(err, relay.ErrAttemptOver) {
				t.Fatalf("Read() error = %v, want none or %v", err, relay.ErrAttemptOver)
			}
			return err == nil
		}
		wasRead := false
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			a := attempts[rapid.IntRange(0, len(attempts)-1).Draw(t, "attempt")]
			switch rapid.IntRange(0, 2).Draw(t, "action") {
			case 0:
				want := a == attempts[len(attempts)-1] && !a.closed
				if read(a) != want {
					t.Fatalf("read(attempt) = %t, want %t: only the last attempt can read, until it is closed", !want, want)
				}
				wasRead = wasRead || want
			case 1:
				_ = a.Close()
				a.closed = true
			default:
				if !wasRead {
					attempts = append(attempts, &attempt{ReadCloser: b.Next()})
				}
			}
			if b.WasRead() != wasRead || inner.n.Load() != 0 {
				t.Fatalf("WasRead() = %t, want %t; inner body closed %d times, want 0", b.WasRead(), wasRead, inner.n.Load())
			}
		}
		last := attempts[len(attempts)-1]
		if rapid.Bool().Draw(t, "last attempt has a response") {
			b.HandOver()
			for _, a := range attempts[:len(attempts)-1] {
				_ = a.Close()
			}
			if n := inner.n.Load(); n > 0 != last.closed {
				t.Fatalf("inner body closed %d times after HandOver(), want it closed: %t, like the body of the last attempt",
					n, last.closed)
			}
			if !last.closed && !read(last) {
				t.Fatal("read(last attempt) = false, want true after its response")
			}
			_ = last.Close()
		} else {
			b.Release()
			if read(last) {
				t.Fatal("read(last attempt) after Release() = true, want false")
			}
		}
		if inner.n.Load() == 0 {
			t.Fatal("inner body closed 0 times, want at least once")
		}
	})
}
