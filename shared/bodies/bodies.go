// Package bodies bounds the memory that request bodies take while a process holds them whole. All readers of a process share
// one Budget: MCP servers, GraphQL policies and the management API's front. So no number of clients that send a body and then
// wait fills the memory, and one client leaves room for the others.
//
// A body takes bytes of the budget as they arrive, and not as its Content-Length promises. No client address and no account
// holds more than a quarter. When there is no room, the slowest body that is still arriving ends and makes room; if there is no
// slower one, the body that asks is refused. A body that arrives below MinRate ends in any case.
//
// It has nothing to do with bodies that are streamed to an upstream: they are never held whole. It knows no listener and no
// connection: package listen begins a Request for each request with a body. Where there is none, such as in a Lambda, whose
// platform holds the body already, Read reads up to its limit and counts nothing.
//
// Read bodies.go first, then request.go (what one request holds) and read.go (how a body is read). The rules are those of
// docs/limits.md, "Requests and answers".
package bodies

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"time"
)

const (
	// shares is into how many parts the budget is divided: one client address or one account holds one part at most.
	shares = 4
	// MinRate is how many bytes a second a body has to bring, as those of IIS and Kestrel have. A body may be late by Window.
	MinRate = 240
	// Window is how far a body may fall behind MinRate. It is also how long a new body may bring nothing, and how long one may
	// pause that was fast: what was sent at once earlier does not count for later.
	Window = 20 * time.Second
	// RetryAfter is how long a client should wait that was refused.
	RetryAfter = time.Second
	// evictionTimeout is how long a reader waits for the memory of a body that was ended to make room.
	evictionTimeout = time.Second
)

var (
	// ErrBusy says that there is no room for the body now. The request had no effect; its client may repeat it after RetryAfter.
	ErrBusy = errors.New("bodies: no room for the request's body")
	// ErrSlow says that the body arrived below MinRate. It is an os.ErrDeadlineExceeded, as the error of a body that stalls is.
	ErrSlow = fmt.Errorf("bodies: the request's body is slower than %d bytes a second: %w", MinRate, os.ErrDeadlineExceeded)
)

// Refusal returns what a client is answered whose body Read has refused for others' sake or for its speed, and 0 for any other
// error. With status 503 the answer has Retry-After.
func Refusal(err error) (status int, detail string) {
	switch {
	case errors.Is(err, ErrBusy):
		return http.StatusServiceUnavailable, "There is no room for the request's body now, since bodies of this client, of this account or of all clients take all the memory that they may. Repeat the request after the time in Retry-After, and send the body at once."
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "The body stalled before its end. Send it again, at once."
	}
	return 0, ""
}

// Budget is the memory for the bodies of a process. Make one with New. It is safe for concurrent use.
type Budget struct {
	bytes, share int64

	mu   sync.Mutex // guards what follows, and the fields of requests and arrivals that say so
	held int64
	of   map[holder]int64
	// arriving are the bodies that are being read. They can be ended to make room.
	arriving map[*arrival]struct{}
}

// holder is a client address or an account, whichever is set. The zero holder is nobody, and has no bound of its own.
type holder struct {
	client  netip.Addr
	account string
}

// New makes a Budget of so many bytes (config.Listener).
func New(bytes int64) *Budget {
	return &Budget{bytes: bytes, share: bytes / shares, of: make(map[holder]int64), arriving: make(map[*arrival]struct{})}
}

// Held returns how many bytes are held now.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}

// take takes n more bytes for a request. Where there is no room, it ends bodies that are slower than a, the one that asks; nil
// is a reader whose body has arrived. The error is ErrBusy, why a was ended, or an *http.MaxBytesError for what never has room.
func (b *Budget) take(q *Request, a *arrival, n int64) error {
	for {
		b.mu.Lock()
		victim, err := b.tryTake(q, a, n)
		b.mu.Unlock()
		if victim == nil {
			return err
		}
		victim.stop()
		timeout := time.NewTimer(evictionTimeout)
		select {
		case <-victim.gone:
			timeout.Stop()
		case <-timeout.C:
			return ErrBusy
		}
	}
}

// tryTake takes the bytes, or returns a body that has to end first. The lock is held.
func (b *Budget) tryTake(q *Request, a *arrival, n int64) (*arrival, error) {
	if a != nil && a.ended != nil {
		return nil, a.ended
	}
	if q.over {
		return nil, ErrBusy // nobody waits for the answer of whoever still reads
	}
	if q.held+n > b.share {
		return nil, &http.MaxBytesError{Limit: b.share}
	}
	within, short := b.shortage(q, n)
	if !short {
		b.add(q, n)
		return nil, nil
	}
	victim := b.slowest(q, a, within)
	if victim == nil {
		return nil, ErrBusy
	}
	victim.ended = ErrBusy
	return victim, nil
}

// shortage reports whether n more bytes of a request are beyond a bound: that of its client, of its account, or of the
// budget, which is that of nobody.
func (b *Budget) shortage(q *Request, n int64) (within holder, short bool) {
	for _, h := range q.holders() {
		if h != (holder{}) && b.of[h]+n > b.share {
			return h, true
		}
	}
	return holder{}, b.held+n > b.bytes
}

// slowest returns the body that is furthest behind, of those within a bound that are slower than a. The body of a client that
// holds less than the client of q does not end for it. It returns nil where there is none.
func (b *Budget) slowest(q *Request, a *arrival, within holder) *arrival {
	due := time.Now().Add(Window)
	if a != nil {
		due = a.due
	}
	var out *arrival
	for other := range b.arriving {
		if other == a || other.ended != nil || other.taken == 0 || !other.due.Before(due) || !other.request.isOf(within) {
			continue
		}
		if b.of[other.request.clientHolder()] < b.of[q.clientHolder()] {
			continue
		}
		out, due = other, other.due
	}
	return out
}

// add has a request hold n more bytes, or less where n is negative. The lock is held.
func (b *Budget) add(q *Request, n int64) {
	if n == 0 || q.over {
		return
	}
	q.held += n
	b.held += n
	for _, h := range q.holders() {
		if h == (holder{}) {
			continue
		}
		if b.of[h] += n; b.of[h] == 0 {
			delete(b.of, h)
		}
	}
}
