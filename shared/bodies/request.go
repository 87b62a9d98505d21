package bodies

import (
	"context"
	"net/http"
	"net/netip"
	"strconv"
	"time"
)

// Request is what one request holds of a budget. Its readers find it in the request's context.
type Request struct {
	budget *Budget
	client netip.Addr
	end    func()

	// The budget's lock guards what follows.
	account string
	held    int64
	// over says that the request has been answered. It holds nothing from then on.
	over bool
	// read says that the body of the connection was asked for: what else is read for the request is in memory.
	read bool
}

type requestKey struct{}

// Begin returns the request with its place in the budget, for readers. client is the address that stands for all addresses of
// the client (package subscriber). end ends the body, so that its reads fail; it is called while the body is read, from
// another goroutine, and does not block. The caller calls over when the request has been answered.
func (b *Budget) Begin(r *http.Request, client netip.Addr, end func()) (begun *http.Request, over func()) {
	q := &Request{budget: b, client: client, end: end}
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, q)), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.add(q, -q.held)
		q.over = true
	}
}

// of returns the request of a context, nil where no budget counts.
func of(ctx context.Context) *Request {
	q, _ := ctx.Value(requestKey{}).(*Request)
	return q
}

// Charge has the request's bodies count for an account too. It is called before the body is read.
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

// Take takes n more bytes for the request, until it has been answered: for a copy of a body that Read has read, or for what
// is kept of a body that passes. The error is ErrBusy, or an *http.MaxBytesError for more than a client may hold.
func Take(ctx context.Context, n int64) error {
	q := of(ctx)
	if q == nil {
		return nil
	}
	return q.budget.take(q, nil, n)
}

// TryTake is Take for what a request can do without: it ends no other body to make room, and does not wait.
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

// Uncounted returns a context in which Read counts nothing, for readers of a copy that is counted already.
func Uncounted(ctx context.Context) context.Context {
	if of(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, (*Request)(nil))
}

// RetryAfterSeconds is RetryAfter as the header field Retry-After has it.
func RetryAfterSeconds() string { return strconv.Itoa(int(RetryAfter / time.Second)) }

func (q *Request) clientHolder() holder { return holder{client: q.client} }

// holders are those whose bounds hold for the request.
func (q *Request) holders() [2]holder {
	return [2]holder{q.clientHolder(), {account: q.account}}
}

// isOf reports whether the request counts for h. The zero holder is the budget, for which each request counts.
func (q *Request) isOf(h holder) bool {
	return h == (holder{}) || h == q.clientHolder() || h == holder{account: q.account}
}
