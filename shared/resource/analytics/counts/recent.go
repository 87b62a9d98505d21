package counts

import (
	"container/heap"
	"slices"
	"time"
)

// maxRecent is the maximum number of single calls that a collector stores for a deployment between two writes. It is
// also the maximum for a deployment and an hour in the table, and the maximum of a response. So the newest calls of all
// callers are complete, unless a collector reaches maxAllRecent or a row reaches maxRowBytes.
const maxRecent = 1_000

// RecentCall is a single request, which Recent returns for 24 hours.
type RecentCall struct {
	// Consumer is "" for a request without one.
	Consumer string
	Method   string
	// Route is the route's path template, "" for a request that no route matched.
	Route  string
	Status int
	// Policy is the policy that responded instead of the handler, "" for none.
	Policy string
	At     time.Time
}

// recentCalls contains the newest calls, in a heap with the oldest call at the top. Calls are added when they end, so a
// long call may be older than calls that were added before. The zero value is empty.
type recentCalls struct{ calls byTime }

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

// Pop implements heap.Interface. It panics, because no call is ever removed.
func (b *byTime) Pop() any { panic("counts: a call is taken out") }

// add adds a call. hasCapacity says whether the collector may store one more call. Even if it may not, the first call
// is added. If a call is not added because of hasCapacity or maxRecent, it replaces the oldest call if it is newer.
// add reports whether the number of calls has grown.
func (rc *recentCalls) add(c RecentCall, hasCapacity bool) bool {
	if len(rc.calls) < maxRecent && (hasCapacity || len(rc.calls) == 0) {
		heap.Push(&rc.calls, c)
		return true
	}
	if c.At.After(rc.calls[0].At) {
		rc.calls[0] = c
		heap.Fix(&rc.calls, 0)
	}
	return false
}

// merge adds other's calls, and keeps the newest maxRecent.
func (rc *recentCalls) merge(other *recentCalls) {
	rc.calls = newest(slices.Concat(rc.calls, other.calls), maxRecent)
	heap.Init(&rc.calls)
}

// newest returns the n newest calls, newest first.
func newest(calls []RecentCall, n int) []RecentCall {
	calls = slices.Clone(calls)
	slices.SortStableFunc(calls, func(a, b RecentCall) int { return b.At.Compare(a.At) })
	return calls[:min(len(calls), n)]
}

// maxMethodBytes is the maximum length of a method's name. Longer ones count as Other. Known methods have constant
// texts, and others are copied: a part of the request's text would keep its whole first line in memory.
const maxMethodBytes = 20

func normalizeMethod(text string) string {
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
