// Package bodies bounds the memory that request bodies take while a process holds them whole. All readers of a process share
// one Budget: MCP servers, GraphQL policies and the management API's front. So clients that send a part of a body and then
// wait cannot fill the memory, however many they are, and one client leaves room for the others.
//
// A body takes bytes of the budget as they arrive, whatever its Content-Length is. No client address and no account
// holds more than a quarter. When there is no room, the slowest body that is still arriving ends and makes room. If no other
// body is slower, the new one is refused. A body that arrives below MinRate ends in any case.
//
// It does not count bodies that are streamed to an upstream: they are never held whole. It knows no listener and no
// connection: package listen begins a Request for each request with a body. Without a Request, Read reads up to its limit
// and counts nothing: for example in a Lambda, whose platform holds the body already.
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
	// shares is the number of parts of the budget: one client address or one account holds one part at most.
	shares = 4
	// MinRate is the lowest rate of a body, in bytes per second, as in IIS and Kestrel. A body may be late by Window.
	MinRate = 240
	// Window is how far a body may fall behind MinRate. It is also the longest pause, of a new body and of one that was
	// fast: bytes that arrived early do not allow a longer pause later.
	Window = 20 * time.Second
	// RetryAfter is how long a refused client should wait.
	RetryAfter = time.Second
	// evictionTimeout is how long a reader waits for the memory of a body that it has ended to make room.
	evictionTimeout = time.Second
)

var (
	// ErrBusy says that there is no room for the body now. The request had no effect; its client may repeat it after RetryAfter.
	ErrBusy = errors.New("bodies: no room for the request's body")
	// ErrSlow says that the body arrived below MinRate. Like the error of a body that stalls, it is an os.ErrDeadlineExceeded.
	ErrSlow = fmt.Errorf("bodies: the request's body is slower than %d bytes a second: %w", MinRate, os.ErrDeadlineExceeded)
)

// Refusal returns the status and the detail of the answer to a request whose body Read has refused: for lack of memory, or
// because the body is too slow. For any other error it returns 0. An answer with status 503 needs a Retry-After.
func Refusal(err error) (status int, detail string) {
	switch {
	case errors.Is(err, ErrBusy):
		return http.StatusServiceUnavailable, "There is no memory left for the request's body: the bodies of this client, of this account or of all clients have reached their limit. Repeat the request after the time in Retry-After, and send the body without pauses."
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

// take takes n more bytes for a request. If there is no room, it ends bodies that are slower than a, the body of this request; a is
// nil if that body has arrived. The error is ErrBusy, the reason why a was ended, or an *http.MaxBytesError if n is over the share.
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
		return nil, ErrBusy // the request has its answer already
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

// shortage reports whether n more bytes of a request exceed a limit, and whose: its client's, its account's, or the budget's,
// for which it returns the zero holder.
func (b *Budget) shortage(q *Request, n int64) (within holder, short bool) {
	for _, h := range q.holders() {
		if h != (holder{}) && b.of[h]+n > b.share {
			return h, true
		}
	}
	return holder{}, b.held+n > b.bytes
}

// slowest returns the body that is furthest behind among the bodies that count for within and are slower than a. It skips bodies
// of clients that hold less than the client of q. It returns nil if there is none.
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

// add adds n bytes, which may be negative, to what a request holds. The lock is held.
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
