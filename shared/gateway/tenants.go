package gateway

import "sync"

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
func (t *tenants) enter(account string, most int64) (n int64, ok bool) {
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
	return n + 1, true
}

// leave ends what enter has begun, if it has.
func (t *tenants) leave(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := t.underWay[account]; n {
	case 0:
	case 1:
		delete(t.underWay, account) // whoever deploys once is not remembered for ever
	default:
		t.underWay[account] = n - 1
	}
}
