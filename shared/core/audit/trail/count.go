package trail

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// level is one of the lengths that counters' windows have. A month has 180 long windows, and a long window has 240
// short windows. So the counters of any time range are read with at most three short queries, and a record updates
// two or three counters for each level. The items are small: DynamoDB bills an update by the size of the whole item.
type level struct {
	name   string
	window time.Duration
}

var levels = [...]level{{"4h", 4 * time.Hour}, {"1m", time.Minute}}

// outcome returns the name of a record's result in the counters.
func outcome(success *bool) string {
	switch {
	case success == nil:
		return "unknown"
	case *success:
		return "success"
	}
	return "failure"
}

// actors returns the names under which an entry is counted: "" for all
// actors, and the names of the entry's actor that Filter.Actor can have.
func actors(e audit.Entry) []string {
	out := []string{"", e.Actor.Sub}
	if e.Actor.Email != nil {
		out = append(out, *e.Actor.Email)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// counters has the amounts that a transaction adds to the counters.
type counters map[store.Key]*counter

// counter has the amounts that are added to one counter item, by name. until is the end of the item's window.
type counter struct {
	until time.Time
	add   map[string]int64
}

// Count adds an entry whose time is at to the counters of all its windows and actors.
func (c counters) Count(accountID string, e audit.Entry, at time.Time) {
	name := string(e.Action) + " " + outcome(e.Success)
	for _, actor := range actors(e) {
		for _, l := range levels {
			from := at.Truncate(l.window)
			key := store.KeyIn(countPartition(accountID, actor, l), audit.Timestamp(from))
			if c[key] == nil {
				c[key] = &counter{from.Add(l.window), map[string]int64{}}
			}
			c[key].add[name]++
		}
	}
}

// Writes returns the writes for the transaction. Counters expire slightly later than
// the records that they count. The list does not read counters of expired records.
func (c counters) Writes() []store.Write {
	out := make([]store.Write, 0, len(c))
	for key, counted := range c {
		changes := []store.Change{store.Set(store.At(store.TTLAttribute), counted.until.Add(audit.Retention).Unix())}
		for name, n := range counted.add {
			changes = append(changes, store.Add(store.At(name), n))
		}
		out = append(out, store.Upsert(key, changes...))
	}
	return out
}

// counts returns the number of chained records that match the filter's action, actor and result in each
// window of a level between from and to, by the window's start.
func (t *Trail) counts(
	ctx context.Context, accountID string, f Filter, l level, from, to time.Time,
) (map[time.Time]int, error) {
	out := map[time.Time]int{}
	q := store.Query{PK: countPartition(accountID, f.Actor, l), UpTo: audit.Timestamp(to.Add(-1).Truncate(l.window))}
	q.After = audit.Timestamp(from.Truncate(l.window).Add(-time.Millisecond))
	err := t.table.Each(ctx, q, func(item store.Item) (bool, error) {
		window, err := audit.Entry{Timestamp: store.KeyOf(item).SK}.Time()
		if err != nil {
			return false, err
		}
		var numbers map[string]any
		if err := store.Decode(item, &numbers); err != nil {
			return false, err
		}
		for name, v := range numbers {
			action, result, ok := strings.Cut(name, " ")
			n, isNumber := v.(float64)
			if !ok || !isNumber || f.Action != "" && f.Action != action || f.Success != nil && result != outcome(f.Success) {
				continue
			}
			out[window] += int(n)
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("count audit records: %w", err)
	}
	return out, nil
}
