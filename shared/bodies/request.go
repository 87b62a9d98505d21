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
	// api says that the request is one to the management API, of a caller with an account key.
	api  bool
	held int64
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

// Charge makes the bodies of a request to a gateway route count for the route's account too. Call it before the body is read.
func Charge(ctx context.Context, account string) { charge(ctx, account, false) }

// ChargeAPI does the same for a request to the management API, of a caller with a key of the account. Such a request may also
// take what is kept for the management API. A request without an account may not.
func ChargeAPI(ctx context.Context, account string) { charge(ctx, account, account != "") }

func charge(ctx context.Context, account string, api bool) {
	q := of(ctx)
	if q == nil {
		return
	}
	q.budget.mu.Lock()
	defer q.budget.mu.Unlock()
	held := q.held
	q.budget.add(q, -held)
	q.account, q.api = account, api
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

// bounds returns the bounds that apply to the request. The budget's lock is held.
func (q *Request) bounds() []bound {
	b := q.budget
	out := append(make([]bound, 0, 7), bound{holder{}, b.bytes})
	if q.client.IsValid() {
		out = append(out, bound{q.clientHolder(), b.share})
	}
	if q.account != "" {
		out = append(out, bound{holder{account: q.account}, b.share})
	}
	if q.api {
		return out
	}
	for _, all := range out {
		// The last quarter of each is kept for the management API.
		out = append(out, bound{holder{all.client, all.account, true}, all.bytes / 4 * 3})
	}
	if q.client.IsValid() && q.account != "" {
		out = append(out, bound{holder{q.client, q.account, true}, b.share / 2})
	}
	return out
}

// isOf reports whether the request is one of those of h.
func (q *Request) isOf(h holder) bool {
	return (!h.client.IsValid() || h.client == q.client) && (h.account == "" || h.account == q.account) && !(h.routes && q.api)
}
