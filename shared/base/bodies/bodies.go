// Package bodies bounds the memory of request bodies that a process holds whole. All readers of a process share one
// Budget: for example MCP servers, GraphQL policies and the management API's front. Many clients that send a part of
// a body and then wait therefore cannot fill the memory. A single client cannot take all of the memory either.
//
// A body takes bytes of the budget as they arrive, independent of its Content-Length. No client address and no
// account holds more than a quarter of the budget. The last quarter of each limit (of the budget, of a client's
// quarter and of an account's quarter) is reserved for bodies of the management API whose caller has an account key.
// Anyone can send bodies to gateway routes, and these bodies must never lock an account's owner out of the management
// API. On the routes of one account, one client address holds at most half of the account's quarter.
//
// If there is not enough memory for a new body, the package aborts the slowest body that is still arriving, if that
// body is slower than the new one. Otherwise the new body is refused. The rate of a body is an average over its time,
// weighted toward the last seconds (rate.go). A body that arrives more slowly than MinRate is aborted in any case.
//
// The package does not count bodies that are streamed to an upstream: they are never held whole. It knows no
// listener and no connection: package listen begins a Request for each request with a body. Without a Request, Read
// reads up to its limit and counts nothing: for example in a Lambda function, whose platform holds the body already.
//
// Read bodies.go first, then request.go (the memory of one request), read.go (reading
// a body) and rate.go. docs/limits.md has the rules.
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
	// shares is the number of parts of the budget. One client address or one account holds at most one part.
	shares = 4
	// fairParts is the number of parts of a share. A client that holds at most one part can take the memory of slower
	// bodies of any client.
	fairParts = 4
	// MinRate is the lowest rate of a body, in bytes per second, as in IIS and Kestrel. A body that is more than Window
	// late is aborted.
	MinRate = 240
	// Window is how late a body can be, compared with MinRate. It is also the longest pause of any body: bytes that
	// arrived early do not allow a longer pause later.
	Window = 20 * time.Second
	// RetryAfter is how long a refused client should wait.
	RetryAfter = time.Second
	// evictionTimeout is how long a reader waits for the memory of another body that it has aborted.
	evictionTimeout = time.Second
)

var (
	// ErrBusy means that there is not enough memory for the body now. The request had no effect. The client can repeat
	// it after RetryAfter.
	ErrBusy = errors.New("bodies: no room for the request's body")
	// ErrSlow means that the body arrived more slowly than MinRate. It wraps os.ErrDeadlineExceeded, like the error of
	// a connection whose read timed out.
	ErrSlow = fmt.Errorf("bodies: the request's body is slower than %d bytes a second: %w", MinRate,
		os.ErrDeadlineExceeded)
)

// Refusal returns the status and the detail of the response to a request whose body Read has refused: for lack of memory,
// or because the body is too slow. For any other error it returns 0. A response with status 503 needs a Retry-After.
func Refusal(err error) (status int, detail string) {
	switch {
	case errors.Is(err, ErrBusy):
		return http.StatusServiceUnavailable, "There is no memory left for the request's body: the bodies of this client, " +
			"of this account or of all clients have reached their limit. Repeat the request after the time in Retry-After, " +
			"and send the body without pauses."
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "The body stalled before its end. Send it again, at once."
	}
	return 0, ""
}

// Budget is the memory for the bodies of a process. Create it with New. It is safe for concurrent use.
type Budget struct {
	bytes int64 // size of the budget
	share int64 // maximum number of bytes of one client address, and of one account

	// mu guards the fields below, and the fields of Request and upload that say so.
	mu   sync.Mutex
	used map[holder]int64
	// uploads are the bodies that are being read. They can be aborted to free memory.
	uploads map[*upload]struct{}
}

// holder is a group of requests. A holder with a client has the requests from that address. A holder with an account
// has the requests that count for that account (Charge, ChargeAPI). A holder with both has the client's requests that
// count for the account. The zero holder has all requests.
type holder struct {
	client  netip.Addr
	account string
	// withoutAPI excludes requests to the management API whose caller has an account key.
	withoutAPI bool
}

// bound is the maximum number of bytes that the requests of a holder can hold together.
type bound struct {
	holder
	bytes int64
}

// New returns a Budget with this number of bytes (the setting BufferedBodyBytes of config.Listener).
func New(bytes int64) *Budget {
	return &Budget{bytes: bytes, share: bytes / shares, used: make(map[holder]int64), uploads: make(map[*upload]struct{})}
}

// InUse returns the number of bytes that are held now.
func (b *Budget) InUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used[holder{}]
}

// reserve takes n more bytes for a request. While not enough bytes are free, it aborts bodies that are slower than u.
// u is the body of this request, or nil if that body has arrived. The error is ErrBusy, the reason why u was aborted,
// or an *http.MaxBytesError if no request can hold so much.
func (b *Budget) reserve(q *Request, u *upload, n int64) error {
	for {
		b.mu.Lock()
		victim, err := b.tryReserve(q, u, n)
		b.mu.Unlock()
		if victim == nil {
			return err
		}
		victim.stop()
		timeout := time.NewTimer(evictionTimeout)
		select {
		case <-victim.done:
			timeout.Stop()
		case <-timeout.C:
			return ErrBusy
		}
	}
}

// tryReserve takes the bytes, or returns a body that reserve must abort first. The caller holds the lock.
func (b *Budget) tryReserve(q *Request, u *upload, n int64) (*upload, error) {
	if u != nil && u.err != nil {
		return nil, u.err
	}
	if q.done {
		return nil, ErrBusy // the response has already been sent
	}
	for _, limit := range q.bounds() {
		if q.reserved+n > limit.bytes {
			return nil, &http.MaxBytesError{Limit: limit.bytes}
		}
	}
	group, short := b.shortage(q, n)
	if !short {
		b.add(q, n)
		return nil, nil
	}
	victim := b.slowest(q, u, n, group)
	if victim == nil {
		return nil, ErrBusy
	}
	victim.err = ErrBusy
	return victim, nil
}

// shortage reports whether n more bytes of a request exceed a bound. It also returns the holder of that bound.
func (b *Budget) shortage(q *Request, n int64) (group holder, short bool) {
	for _, limit := range q.bounds() {
		if b.used[limit.holder]+n > limit.bytes {
			return limit.holder, true
		}
	}
	return holder{}, false
}

// slowest returns the slowest body among those that count for group and are slower than u. If the client of q holds
// more than a fair part, slowest skips bodies of clients that hold less than that client. It returns nil if there is
// none.
func (b *Budget) slowest(q *Request, u *upload, n int64, group holder) *upload {
	now := time.Now()
	rate := u.competingRate(now)
	clientBytes := b.used[q.clientHolder()]
	fair := clientBytes+n <= b.share/fairParts
	var out *upload
	for other := range b.uploads {
		if other == u || other.err != nil || other.reserved == 0 || !other.request.belongsTo(group) {
			continue
		}
		if !fair && b.used[other.request.clientHolder()] < clientBytes {
			continue
		}
		if r := other.rate(now); r < rate {
			out, rate = other, r
		}
	}
	return out
}

// add adds n bytes, possibly negative, to the bytes that a request holds. The caller holds the lock.
func (b *Budget) add(q *Request, n int64) {
	if n == 0 || q.done {
		return
	}
	q.reserved += n
	for _, limit := range q.bounds() {
		if b.used[limit.holder] += n; b.used[limit.holder] == 0 {
			delete(b.used, limit.holder)
		}
	}
}
