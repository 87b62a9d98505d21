package gateway

import "sync"

// accountCounter counts the requests that are in flight in this process, by the account of their deployment.
// A request counts from the moment at which its account is known until the end of its response.
// Streams and connections that have switched to another protocol count, too. With a limit, no account can use up
// all upstream connections, all memory or all descriptors of a process. Requests in other processes do not count.
// Decision 0062 says what a count over all processes would cost. Without a limit, nothing is counted.
// The zero value is ready to use. NewProcessStreams uses the same type to count streams instead of requests.
type accountCounter struct {
	mu     sync.Mutex
	counts map[string]int64
}

// reserve counts a request if fewer than limit requests of the account are in flight. Then ok is true, and the caller
// must call release. n is the number of the account's requests in flight, including the new one if ok is true. If
// limit is 0, reserve counts nothing and returns 0 and true.
func (a *accountCounter) reserve(account string, limit int64) (n int64, ok bool) {
	if limit == 0 {
		return 0, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if n = a.counts[account]; n >= limit {
		return n, false
	}
	if a.counts == nil {
		a.counts = map[string]int64{}
	}
	a.counts[account] = n + 1
	return n + 1, true
}

// release undoes reserve. It has no effect if no request of the account is counted.
func (a *accountCounter) release(account string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch n := a.counts[account]; n {
	case 0:
	case 1:
		delete(a.counts, account) // so that the map has only accounts with requests in flight
	default:
		a.counts[account] = n - 1
	}
}
