package relay

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// downTime is how long a relay counts as down that could not be asked.
const downTime = 10 * time.Second

// down are the relays, by address, that could not be asked a moment ago: their rows outlive them.
// The zero value has none. It is safe for concurrent use.
type down struct {
	mu    sync.Mutex
	since map[string]time.Time
}

// note notes whether a relay could be asked. It reports whether that is news: one that was
// not down can't be.
func (d *down) note(address string, asked bool, now time.Time) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.since, func(_ string, since time.Time) bool { return !within(since, now) })
	if asked {
		delete(d.since, address)
		return false
	}
	if _, known := d.since[address]; known {
		return false
	}
	if d.since == nil {
		d.since = map[string]time.Time{}
	}
	d.since[address] = now
	return true
}

// last sorts rows of relays that are down behind the others. Each of them may take the
// time of a connection that nobody answers.
func (d *down) last(rows []row, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rank := func(w row) int {
		if within(d.since[w.Address], now) {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(rank(a), rank(b)) })
}

// within reports whether a time is no longer ago than downTime, by a clock that may be set back.
func within(since, now time.Time) bool {
	return !now.Before(since) && now.Sub(since) < downTime
}
