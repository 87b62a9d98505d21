// Package bodies bounds the memory that request bodies take while a process holds them whole. All readers of a process share
// one Budget: MCP servers, GraphQL policies and the management API's front. So clients that send a part of a body and then
// wait cannot fill the memory, however many they are, and one client leaves room for the others.
//
// A body takes bytes of the budget as they arrive, whatever its Content-Length is. No client address and no account
// holds more than a quarter. Only bodies of the management API whose caller has an account key may take the last quarter of each
// limit: of the budget, of a client's quarter and of an account's quarter. So the bodies of gateway routes, whose clients
// may be anybody, never lock an account's owner out of the management API. On the routes of one account, one client address holds
// half of the account's quarter at most.
//
// When there is no room, the slowest body that is still arriving ends and makes room, if it is slower than the new one.
// Otherwise the new one is refused. The rate of a body is an average over its time, in which the last seconds count most
// (rate.go). A body that arrives below MinRate ends in any case.
//
// It does not count bodies that are streamed to an upstream: they are never held whole. It knows no listener and no
// connection: package listen begins a Request for each request with a body. Without a Request, Read reads up to its limit
// and counts nothing: for example in a Lambda, whose platform holds the body already.
//
// Read bodies.go first, then request.go (what one request holds), read.go (how a body is read) and rate.go. The rules are those of
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
	// fairParts is the number of parts of a share. A client that holds one part at most ends slower bodies of any client.
	fairParts = 4
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

	mu sync.Mutex // guards what follows, and the fields of requests and arrivals that say so
	of map[holder]int64
	// arriving are the bodies that are being read. They can be ended to make room.
	arriving map[*arrival]struct{}
}

// holder is a group of requests: those of a client address, of an account, or of both if both are set. The zero holder has all
// requests.
type holder struct {
	client  netip.Addr
	account string
	// routes says that requests to the management API are not in the group.
	routes bool
}

// bound is the most that the requests of a holder may hold together.
type bound struct {
	holder
	bytes int64
}

// New makes a Budget of so many bytes (config.Listener).
func New(bytes int64) *Budget {
	return &Budget{bytes: bytes, share: bytes / shares, of: make(map[holder]int64), arriving: make(map[*arrival]struct{})}
}

// Held returns how many bytes are held now.
func (b *Budget) Held() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[holder{}]
}

// take takes n more bytes for a request. If there is no room, it ends bodies that are slower than a, the body of this request; a is
// nil if that body has arrived. The error is ErrBusy, the reason why a was ended, or an *http.MaxBytesError if no request may hold so much.
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
	for _, limit := range q.bounds() {
		if q.held+n > limit.bytes {
			return nil, &http.MaxBytesError{Limit: limit.bytes}
		}
	}
	within, short := b.shortage(q, n)
	if !short {
		b.add(q, n)
		return nil, nil
	}
	victim := b.slowest(q, a, n, within)
	if victim == nil {
		return nil, ErrBusy
	}
	victim.ended = ErrBusy
	return victim, nil
}

// shortage reports whether n more bytes of a request exceed a bound, and whose.
func (b *Budget) shortage(q *Request, n int64) (within holder, short bool) {
	for _, limit := range q.bounds() {
		if b.of[limit.holder]+n > limit.bytes {
			return limit.holder, true
		}
	}
	return holder{}, false
}

// slowest returns the slowest body among those that count for within and are slower than a. If the client of q holds more than a
// fair part, slowest skips bodies of clients that hold less than that client. It returns nil if there is none.
func (b *Budget) slowest(q *Request, a *arrival, n int64, within holder) *arrival {
	now := time.Now()
	rate := a.askingRate(now)
	holds := b.of[q.clientHolder()]
	fair := holds+n <= b.share/fairParts
	var out *arrival
	for other := range b.arriving {
		if other == a || other.ended != nil || other.taken == 0 || !other.request.isOf(within) {
			continue
		}
		if !fair && b.of[other.request.clientHolder()] < holds {
			continue
		}
		if r := other.rate(now); r < rate {
			out, rate = other, r
		}
	}
	return out
}

// add adds n bytes, which may be negative, to what a request holds. The lock is held.
func (b *Budget) add(q *Request, n int64) {
	if n == 0 || q.over {
		return
	}
	q.held += n
	for _, limit := range q.bounds() {
		if b.of[limit.holder] += n; b.of[limit.holder] == 0 {
			delete(b.of, limit.holder)
		}
	}
}
