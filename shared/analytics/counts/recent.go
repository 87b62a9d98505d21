package counts

import (
	"slices"
	"time"
)

// maxRecent is how many calls are kept one by one: of a deployment by a collector between two writes, and of a deployment and an hour. It is the
// most that a reader is answered, so that the newest ones of all are always there.
const maxRecent = 1_000

// RecentCall is one request of the last 24 hours.
type RecentCall struct {
	// Consumer is "" for a request without one.
	Consumer string
	Method   string
	// Route is the route's path template, "" for a request that no route matched.
	Route  string
	Status int
	At     time.Time
}

// ring has the last calls. The zero value is empty.
type ring struct {
	calls []RecentCall
	next  int // the oldest, where the ring is full
}

// add takes a call in. room is whether the ring may grow. It reports whether it did.
func (r *ring) add(c RecentCall, room bool) bool {
	if len(r.calls) < maxRecent && (room || len(r.calls) == 0) {
		r.calls = append(r.calls, c)
		return true
	}
	r.next %= len(r.calls)
	r.calls[r.next] = c
	r.next++
	return false
}

// newest sorts calls, the newest first, and leaves the first n of them.
func newest(calls []RecentCall, n int) []RecentCall {
	slices.SortStableFunc(calls, func(a, b RecentCall) int { return b.At.Compare(a.At) })
	return calls[:min(len(calls), n)]
}

// The methods that have a name of their own here. A request's own text would keep all of its first line in memory.
const maxMethodBytes = 20

func methodOf(text string) string {
	for _, known := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
		if text == known {
			return known
		}
	}
	if len(text) > maxMethodBytes {
		return Other
	}
	return string([]byte(text))
}
