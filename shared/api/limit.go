package api

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/bounded"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
)

// Limit is how often one account key may ask the operations that share it,
// counted over all processes (contract 8 and 9). The zero value is none.
type Limit struct {
	// Name is the policy's in headers, and tells it from all others.
	Name string
	// Requests are the most in a second, which is one of the clock of the process
	// that answers (package allowance).
	Requests int64
}

// LimitOfKeys is that of the operations on key buckets, consumers, their managers and
// API keys (specification 4.5 and 4.6).
var LimitOfKeys = Limit{Name: "keys", Requests: 100}

// The headers of a limit (draft-ietf-httpapi-ratelimit-headers).
const (
	policyHeader = "RateLimit-Policy"
	limitHeader  = "RateLimit"
)

// Policy is what RateLimit-Policy says: so many in a window of a second.
func (l Limit) Policy() string { return fmt.Sprintf("%q;q=%d;w=1", l.Name, l.Requests) }

// left is what RateLimit says of the current second.
func (l Limit) left(requests int64) string { return fmt.Sprintf("%q;r=%d;t=1", l.Name, requests) }

// limited takes one request of what the caller's key has in this second, and says
// in the answer's headers what is left. Fault: Throttled when nothing is.
//
// Where nobody can tell, because the table does not answer, the request is refused: its operation would ask the same
// table.
func (s *Server) limited(ctx context.Context, w http.ResponseWriter, l Limit, p auth.Principal) error {
	if l == (Limit{}) || s.parts.Rates == nil {
		return nil
	}
	w.Header().Set(policyHeader, l.Policy())
	d, err := s.parts.Rates.Take(ctx, "rate/"+l.Name+"/"+p.KeyID, l.Requests)
	if err != nil {
		return fmt.Errorf("count a request: %w", err)
	}
	w.Header().Set(limitHeader, l.left(d.Remaining))
	if !d.Admitted {
		f := fault.New(fault.Throttled, "An account key may ask %d times a second here, and this one has. Repeat the request after the time in Retry-After.", l.Requests)
		f.RetryAfter = d.RetryAfter
		return f
	}
	return nil
}

// oftener counts the requests of accounts in the current second.
type oftener struct {
	mu     sync.Mutex
	second int64
	asked  map[string]int64
}

// maxOftener bounds the accounts of a second.
const maxOftener = 4096

// again reports whether the account has asked in this second before.
func (o *oftener) again(account string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if second := now.Unix(); o.asked == nil || second != o.second {
		o.second, o.asked = second, map[string]int64{}
	}
	n := o.asked[account]
	bounded.Put(o.asked, account, n+1, maxOftener)
	return n > 0
}

// accountLimited takes one request of what the caller's account has in this second (limits.Requests). The first request of an
// account and second is free for each process: whoever asks seldom, as most do, costs no look at the table, and
// the limit holds but for one request a process (decision 0062). Fault: the limit's refusal.
//
// Where the table does not answer, the request goes on uncounted, and hears by itself whether it answers again: most of
// them only read, and a count whose reply is lost is no reason to refuse one.
func (s *Server) accountLimited(ctx context.Context, p auth.Principal) error {
	if s.parts.Rates == nil || !s.oftener.again(p.AccountID, s.parts.Now()) {
		return nil
	}
	most, err := s.limits.Value(ctx, p.AccountID, limits.Requests)
	if fault.Is(err, fault.Unanswered) {
		return nil
	}
	if err != nil {
		return err
	}
	d, err := s.parts.Rates.Take(ctx, "rate/account/"+p.AccountID, most)
	switch {
	case fault.Is(err, fault.Unanswered):
		return nil
	case err != nil:
		return fmt.Errorf("count a request of an account: %w", err)
	case !d.Admitted:
		return limits.Requests.Refusal(most, most, d.RetryAfter)
	}
	return nil
}

// limitHeaders documents the headers of a limit.
func limitHeaders() map[string]*huma.Param {
	text := &huma.Schema{Type: huma.TypeString}
	return map[string]*huma.Param{
		policyHeader: {Description: "How often the account key may ask: q requests in w seconds.", Schema: text, Example: LimitOfKeys.Policy()},
		limitHeader:  {Description: "What is left of that: r requests, for t seconds.", Schema: text, Example: LimitOfKeys.left(LimitOfKeys.Requests - 1)},
	}
}
