package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/base/bounded"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
)

// Limit is the number of requests per second that one account key may send to all operations
// with this limit, counted over all processes (contract 8 and 9). The zero value means no limit.
type Limit struct {
	// Name is the name of the policy in headers. It is unique among the limits.
	Name string
	// Requests is the maximum number of requests in a second of the clock of the serving process (package allowance).
	Requests int64
}

// KeysLimit is the limit of the operations on key buckets, consumers,
// their managers, and API keys (specification 4.5 and 4.6).
var KeysLimit = Limit{Name: "keys", Requests: 100}

// The headers of a limit (draft-ietf-httpapi-ratelimit-headers).
const (
	policyHeader = "RateLimit-Policy"
	limitHeader  = "RateLimit"
)

// Policy returns the value of RateLimit-Policy: the number of requests in a window of one second.
func (l Limit) Policy() string { return fmt.Sprintf("%q;q=%d;w=1", l.Name, l.Requests) }

// remainingHeader returns the value of RateLimit. requests is the number of requests that remain in the current second.
func (l Limit) remainingHeader(requests int64) string {
	return fmt.Sprintf("%q;r=%d;t=1", l.Name, requests)
}

// checkKeyLimit counts one request of the caller's key against l in this second, and sets
// the headers of the limit. Fault: Throttled if the limit is exceeded.
//
// If the table does not respond, the request is refused, because the operation would use the same table.
func (s *Server) checkKeyLimit(ctx context.Context, w http.ResponseWriter, l Limit, p auth.Principal) error {
	if l == (Limit{}) || s.parts.Rates == nil {
		return nil
	}
	w.Header().Set(policyHeader, l.Policy())
	d, err := s.parts.Rates.Take(ctx, "rate/"+l.Name+"/"+p.KeyID, l.Requests)
	if err != nil {
		return fmt.Errorf("count a request: %w", err)
	}
	w.Header().Set(limitHeader, l.remainingHeader(d.Remaining))
	if !d.Admitted {
		f := fault.New(fault.Throttled, "An account key may ask %d times a second here, and this one has. Repeat the "+
			"request after the time in Retry-After.", l.Requests)
		f.RetryAfter = d.RetryAfter
		return f
	}
	return nil
}

// accountCounter counts the requests of each account in the current second, in this process.
type accountCounter struct {
	mu     sync.Mutex
	second int64
	counts map[string]int64
}

// maxCountedAccounts is the maximum number of accounts whose requests are counted at the same time. A further account
// replaces a random account, whose next request then counts as its first request in the second.
const maxCountedAccounts = 4096

// countRepeat counts a request, and reports whether another request of the account was already counted in this second.
func (c *accountCounter) countRepeat(account string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if second := now.Unix(); c.counts == nil || second != c.second {
		c.second, c.counts = second, map[string]int64{}
	}
	n := c.counts[account]
	bounded.Put(c.counts, account, n+1, maxCountedAccounts)
	return n > 0
}

// checkAccountLimit counts one request against the limit of the caller's account in this second
// (limits.Requests). In each process, it does not count the first request of an account in a second.
// Most accounts send few requests, so counting them needs no access to the table. Each process can
// therefore exceed the limit by one request (decision 0062). Fault: the limit's refusal.
//
// If the table does not respond, the request continues uncounted. Most requests only read, and a lost reply of
// the table to a count is no reason to refuse a request. If the table is still unavailable, the operation fails.
func (s *Server) checkAccountLimit(ctx context.Context, p auth.Principal) error {
	if s.parts.Rates == nil || !s.accountCounter.countRepeat(p.AccountID, s.parts.Now()) {
		return nil
	}
	limit, err := s.limits.Value(ctx, p.AccountID, limits.Requests)
	if fault.Is(err, fault.DatabaseUnavailable) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := s.parts.Rates.Take(ctx, "rate/account/"+p.AccountID, limit)
	switch {
	case fault.Is(err, fault.DatabaseUnavailable):
		return nil
	case err != nil:
		return fmt.Errorf("count a request of an account: %w", err)
	case !d.Admitted:
		return limits.Requests.Refusal(limit, limit, d.RetryAfter)
	}
	return nil
}

// limitHeaders documents the headers of a limit.
func limitHeaders() map[string]*huma.Param {
	text := &huma.Schema{Type: huma.TypeString}
	return map[string]*huma.Param{
		policyHeader: {
			Description: "How often the account key may ask: q requests in w seconds.", Schema: text,
			Example: KeysLimit.Policy(),
		},
		limitHeader: {
			Description: "What is left of that: r requests, for t seconds.", Schema: text,
			Example: KeysLimit.remainingHeader(KeysLimit.Requests - 1),
		},
	}
}
