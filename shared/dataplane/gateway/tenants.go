package gateway

import "sync"

// tenants counts the requests that are in flight in this process, by the account of their deployment.
// A request counts from the moment at which its account is known until the end of its response.
// Streams and connections of other protocols count, too. So no account can use up all upstream
// connections, all memory or all descriptors of a process. Requests in other processes do not count.
// Decision 0062 says what a count over all processes would cost. Without a limit, nothing is counted.
// The zero value is ready to use. ProcessStreams uses the same type to count streams.
type tenants struct {
	mu       sync.Mutex
	inFlight map[string]int64
}

// reserve counts a request of an account if fewer than limit requests are in flight. It returns the number of requests
// in flight, and whether another one is allowed. If limit is 0, reserve counts nothing and returns 0 and true. If ok
// is true, the caller must call release.
func (t *tenants) reserve(account string, limit int64) (n int64, ok bool) {
	if limit == 0 {
		return 0, true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n = t.inFlight[account]; n >= limit {
		return n, false
	}
	if t.inFlight == nil {
		t.inFlight = map[string]int64{}
	}
	t.inFlight[account] = n + 1
	return n + 1, true
}

// release undoes reserve. It has no effect if the account has no requests.
func (t *tenants) release(account string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch n := t.inFlight[account]; n {
	case 0:
	case 1:
		delete(t.inFlight, account) // so that the map does not grow with each account
	default:
		t.inFlight[account] = n - 1
	}
}
