package bodies

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Request counts the bytes of a budget that one request holds. Readers find it in the request's context.
type Request struct {
	budget *Budget
	client netip.Addr
	end    func()

	// The budget's lock guards what follows.
	account string
	held    int64
	// over says that the request has been answered. From then on it holds nothing.
	over bool
	// read says that the request's body on the connection was read or is being read. Later reads are of copies in memory.
	read bool
}

type requestKey struct{}

// Begin returns r with a Request in its context, for readers. client is the address that stands for all addresses of the client
// (package subscriber). end makes the reads of the body fail. It is called from another goroutine while the body is read, and
// must not block. The caller calls over when the request has been answered.
func (b *Budget) Begin(r *http.Request, client netip.Addr, end func()) (begun *http.Request, over func()) {
	q := &Request{budget: b, client: client, end: end}
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, q)), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.add(q, -q.held)
		q.over = true
	}
}

// of returns the request of a context, or nil if no budget counts it.
func of(ctx context.Context) *Request {
	q, _ := ctx.Value(requestKey{}).(*Request)
	return q
}

// Charge makes the request's bodies count for an account too. Call it before the body is read.
func Charge(ctx context.Context, account string) {
	q := of(ctx)
	if q == nil {
		return
	}
	q.budget.mu.Lock()
	defer q.budget.mu.Unlock()
	held := q.held
	q.budget.add(q, -held)
	q.account = account
	q.budget.add(q, held)
}

// Take takes n more bytes until the request has been answered: for a copy of a body that Read has read, or for the kept part
// of a streamed body. The error is ErrBusy, or an *http.MaxBytesError if n is more than a client may hold.
func Take(ctx context.Context, n int64) error {
	q := of(ctx)
	if q == nil {
		return nil
	}
	return q.budget.take(q, nil, n)
}

// TryTake takes n more bytes if there is room, and reports whether it did. It ends no other body to make room, and does not wait.
func TryTake(ctx context.Context, n int64) bool {
	q := of(ctx)
	if q == nil {
		return true
	}
	b := q.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, short := b.shortage(q, n); short || q.over {
		return false
	}
	b.add(q, n)
	return true
}

// Uncounted returns a context in which Read counts nothing. It is for readers of a copy that already counts.
func Uncounted(ctx context.Context) context.Context {
	if of(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, (*Request)(nil))
}

// RetryAfterSeconds returns RetryAfter as the value of the header field Retry-After.
func RetryAfterSeconds() string { return strconv.Itoa(int(RetryAfter / time.Second)) }

func (q *Request) clientHolder() holder { return holder{client: q.client} }

// holders returns the holders whose limits apply to the request.
func (q *Request) holders() [2]holder {
	return [2]holder{q.clientHolder(), {account: q.account}}
}

// isOf reports whether the request counts for h. The zero holder is the budget, for which each request counts.
func (q *Request) isOf(h holder) bool {
	return h == (holder{}) || h == q.clientHolder() || h == holder{account: q.account}
}
