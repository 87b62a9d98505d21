package counts

import (
	"container/heap"
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
	// Policy is the policy that refused it, "" for none.
	Policy string
	At     time.Time
}

// latest has the calls that came last, a heap whose first is the oldest: a call is told when it ends, and one that took
// long came before others that are told already. The zero value is empty.
type latest struct{ calls byTime }

// byTime implements heap.Interface.
type byTime []RecentCall

func (b byTime) Len() int           { return len(b) }
func (b byTime) Less(i, j int) bool { return b[i].At.Before(b[j].At) }
func (b byTime) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// Push implements heap.Interface.
func (b *byTime) Push(call any) {
	if c, ok := call.(RecentCall); ok {
		*b = append(*b, c)
	}
}

// Pop implements heap.Interface. Nothing is taken out.
func (b *byTime) Pop() any { panic("counts: a call is taken out") }

// add takes a call in, in place of the oldest one where there is no room for both. room is whether there may be more. It
// reports whether there are.
func (l *latest) add(c RecentCall, room bool) bool {
	if len(l.calls) < maxRecent && (room || len(l.calls) == 0) {
		heap.Push(&l.calls, c)
		return true
	}
	if c.At.After(l.calls[0].At) {
		l.calls[0] = c
		heap.Fix(&l.calls, 0)
	}
	return false
}

// merge takes in what another one has.
func (l *latest) merge(other *latest) {
	l.calls = newest(slices.Concat(l.calls, other.calls), maxRecent)
	heap.Init(&l.calls)
}

// newest are the first n calls, the newest first.
func newest(calls []RecentCall, n int) []RecentCall {
	calls = slices.Clone(calls)
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
