package gateway

import (
	"net/http"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/limits"
)

// tenants counts the requests that are under way here, by the account whose deployment they are for: from where that is
// known to the end of the answer, streams and connections of other protocols included. So no account has all connections to
// upstreams, all memory and all descriptors of a process. What is under way elsewhere does not count: what a count over
// processes costs each request, decision 0062 has. The zero value counts nobody.
type tenants struct {
	mu       sync.Mutex
	underWay map[string]int64
}

// enter counts a request of an account, if it has less than most under way; 0 is no bound. It gives how many there are.
// Whoever was let in leaves.
func (t *tenants) enter(out *writer, account string, most int64) (n int64, ok bool) {
	if most == 0 {
		return 0, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.underWay[account]; n >= most {
		return n, false
	}
	if t.underWay == nil {
		t.underWay = map[string]int64{}
	}
	t.underWay[account] = n + 1
	out.tenant = account
	return n + 1, true
}

// leave ends what enter has begun, if it has.
func (t *tenants) leave(out *writer) {
	account := out.tenant
	if account == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.underWay[account]--; t.underWay[account] == 0 {
		delete(t.underWay, account) // whoever deploys once is not remembered for ever
	}
}

// busy refuses a request of an account that has n under way.
func (g *Gateway) busy(x *pipeline.Exchange, n int64) *http.Response {
	response := x.Problem(http.StatusTooManyRequests, limits.GatewayRequests.Refusal(n, g.config.RequestsAtOnce, time.Second).Public)
	response.Header["Retry-After"] = []string{"1"}
	return response
}
