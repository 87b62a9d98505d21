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
	abort  func()

	// The budget's lock guards the fields below.
	account string
	// isAPI reports whether the request is to the management API, from a caller with an account key.
	isAPI    bool
	reserved int64
	// done reports whether the response has been sent. From then on the request holds no memory.
	done bool
	// bodyRead reports whether the request's body on the connection was read or is being read. Later reads read copies
	// in memory.
	bodyRead bool
}

type requestKey struct{}

// Begin returns r with a Request in its context, for readers. client is the address that represents all addresses of
// the client (package clientaddr). abort has to make the reads of the body fail. It is called from another goroutine
// while the body is read, and must not block. Call the returned function done when the response has been sent.
func (b *Budget) Begin(r *http.Request, client netip.Addr, abort func()) (req *http.Request, done func()) {
	q := &Request{budget: b, client: client, abort: abort}
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, q)), func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.add(q, -q.reserved)
		q.done = true
	}
}

// fromContext returns the request of a context, or nil if no budget counts it.
func fromContext(ctx context.Context) *Request {
	q, _ := ctx.Value(requestKey{}).(*Request)
	return q
}

// Charge makes the bodies of a request to a gateway route count for the route's account, in addition to the client.
// Call it before the body is read.
func Charge(ctx context.Context, account string) { charge(ctx, account, false) }

// ChargeAPI makes the bodies of a request to the management API count for the account whose key the caller has. Such a
// request can also take the memory that is reserved for the management API, unless account is "".
func ChargeAPI(ctx context.Context, account string) { charge(ctx, account, account != "") }

// charge makes the request's bytes count for the account, including the bytes that it already holds.
func charge(ctx context.Context, account string, isAPI bool) {
	q := fromContext(ctx)
	if q == nil {
		return
	}
	q.budget.mu.Lock()
	defer q.budget.mu.Unlock()
	reserved := q.reserved
	q.budget.add(q, -reserved)
	q.account, q.isAPI = account, isAPI
	q.budget.add(q, reserved)
}

// Reserve takes n more bytes until the response to the request has been sent: for a copy of a body that Read has
// read, or for the kept part of a streamed body. The error is ErrBusy, or an *http.MaxBytesError if the request would
// hold more than one request can ever hold.
func Reserve(ctx context.Context, n int64) error {
	q := fromContext(ctx)
	if q == nil {
		return nil
	}
	return q.budget.reserve(q, nil, n)
}

// TryReserve takes n more bytes if they are free, and reports whether it did. It does not abort other bodies, and does
// not wait.
func TryReserve(ctx context.Context, n int64) bool {
	q := fromContext(ctx)
	if q == nil {
		return true
	}
	b := q.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, short := b.shortage(q, n); short || q.done {
		return false
	}
	b.add(q, n)
	return true
}

// Uncounted returns a context with which Read counts nothing. Use it for readers of a copy that already counts.
func Uncounted(ctx context.Context) context.Context {
	if fromContext(ctx) == nil {
		return ctx
	}
	return context.WithValue(ctx, requestKey{}, (*Request)(nil))
}

// RetryAfterSeconds returns RetryAfter as the value of the header field Retry-After.
func RetryAfterSeconds() string { return strconv.Itoa(int(RetryAfter / time.Second)) }

func (r *Request) clientHolder() holder { return holder{client: r.client} }

// bounds returns the bounds that apply to the request. The caller holds the budget's lock.
func (r *Request) bounds() []bound {
	b := r.budget
	out := append(make([]bound, 0, 7), bound{holder{}, b.bytes})
	if r.client.IsValid() {
		out = append(out, bound{r.clientHolder(), b.share})
	}
	if r.account != "" {
		out = append(out, bound{holder{account: r.account}, b.share})
	}
	if r.isAPI {
		return out
	}
	for _, limit := range out {
		// The last quarter of each bound is reserved for the management API.
		out = append(out, bound{holder{limit.client, limit.account, true}, limit.bytes / 4 * 3})
	}
	if r.client.IsValid() && r.account != "" {
		out = append(out, bound{holder{r.client, r.account, true}, b.share / 2})
	}
	return out
}

// belongsTo reports whether the bytes of the request count for h.
func (r *Request) belongsTo(h holder) bool {
	return (!h.client.IsValid() || h.client == r.client) && (h.account == "" || h.account == r.account) &&
		!(h.withoutAPI && r.isAPI)
}
