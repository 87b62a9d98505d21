package relay

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// unreachableTime is how long a relay counts as unreachable after it was not reached.
const unreachableTime = 10 * time.Second

// unreachableRelays has the addresses of the relays that count as unreachable. A dead relay's rows are valid for some
// time after its death. The zero value has none. It is safe for concurrent use.
type unreachableRelays struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// record records whether a relay was reached. It reports whether the relay counts as unreachable now and did not
// before.
func (r *unreachableRelays) record(address string, reached bool, now time.Time) (newlyUnreachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.since, func(_ string, since time.Time) bool { return !isRecent(since, now) })
	if reached {
		delete(r.since, address)
		return false
	}
	if _, known := r.since[address]; known {
		return false
	}
	if r.since == nil {
		r.since = map[string]time.Time{}
	}
	r.since[address] = now
	return true
}

// sortLast moves the rows of unreachable relays to the end, because a request to such a relay can take as long as the
// dial timeout.
func (r *unreachableRelays) sortLast(rows []row, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rank := func(w row) int {
		if isRecent(r.since[w.Address], now) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(rank(a), rank(b)) })
}

// isRecent reports whether a time is less than unreachableTime ago. It returns
// false for a time in the future, which occurs if the clock was set back.
func isRecent(since, now time.Time) bool {
	return !now.Before(since) && now.Sub(since) < unreachableTime
}
