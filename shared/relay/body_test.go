package relay_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/relay"
)

// TestBodyIsOfOneAttempt plays attempts that read, close and are overtaken in any order, as transports
// do it from goroutines of their own: the last one alone reads, what it has read is never another's, and the
// client's body is closed when all is over and not before.
func TestBodyIsOfOneAttempt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		of := &closed{Reader: strings.NewReader(strings.Repeat("x", 100))}
		b := relay.BodyOf(&http.Request{Body: of})
		type attempt struct {
			io.ReadCloser
			closed bool
		}
		attempts := []*attempt{{ReadCloser: b.Next()}}
		read := func(a *attempt) bool {
			_, err := a.Read(make([]byte, 1))
			if err != nil && !errors.Is(err, relay.ErrOver) {
				t.Fatal(err)
			}
			return err == nil
		}
		touched := false
		for range rapid.IntRange(0, 12).Draw(t, "steps") {
			a := attempts[rapid.IntRange(0, len(attempts)-1).Draw(t, "attempt")]
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				want := a == attempts[len(attempts)-1] && !a.closed
				if read(a) != want {
					t.Fatalf("an attempt reads: %t, want %t", !want, want)
				}
				touched = touched || want
			case 1:
				_ = a.Close()
				a.closed = true
			default:
				if !touched {
					attempts = append(attempts, &attempt{ReadCloser: b.Next()})
				}
			}
			if b.Touched() != touched || of.n.Load() != 0 {
				t.Fatalf("it is touched: %t, want %t, and closed %d times", b.Touched(), touched, of.n.Load())
			}
		}
		last := attempts[len(attempts)-1]
		if rapid.Bool().Draw(t, "answered") {
			b.Keep()
			for _, a := range attempts[:len(attempts)-1] {
				_ = a.Close()
			}
			if n := of.n.Load(); n > 0 != last.closed {
				t.Fatalf("the body of an attempt that was answered is closed %d times, the attempt's: %t", n, last.closed)
			}
			if !last.closed && !read(last) {
				t.Fatal("an attempt that was answered reads no more")
			}
			_ = last.Close()
		} else {
			b.End()
			if read(last) {
				t.Fatal("an attempt reads on when all is over")
			}
		}
		if of.n.Load() == 0 {
			t.Fatal("the body is never closed")
		}
	})
}
