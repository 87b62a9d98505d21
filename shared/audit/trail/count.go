package trail

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/store"
)

// level is a length of the windows in which records are counted. A month is 180
// of the long ones, and one of those 240 of the short: so a number of any time is
// in two or three short queries, and a record costs two or three counters, small
// ones, for DynamoDB bills an update by the whole item.
type level struct {
	name  string
	every time.Duration
}

var levels = [...]level{{"4h", 4 * time.Hour}, {"1m", time.Minute}}

// outcome is how counters tell successes apart.
func outcome(success *bool) string {
	switch {
	case success == nil:
		return "unknown"
	case *success:
		return "success"
	}
	return "failure"
}

// actors are whom an entry is counted for: everybody, and who has done it by each
// name that a filter may have.
func actors(e audit.Entry) []string {
	out := []string{"", e.Actor.Sub}
	if e.Actor.Email != nil {
		out = append(out, *e.Actor.Email)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// counters gathers what a transaction adds.
type counters map[store.Key]*counter

type counter struct {
	until time.Time
	add   map[string]int64
}

// Count adds an entry to them.
func (c counters) Count(accountID string, e audit.Entry, at time.Time) {
	name := string(e.Action) + " " + outcome(e.Success)
	for _, actor := range actors(e) {
		for _, l := range levels {
			from := at.Truncate(l.every)
			key := store.In(countPartition(accountID, actor, l), audit.Timestamp(from))
			if c[key] == nil {
				c[key] = &counter{from.Add(l.every), map[string]int64{}}
			}
			c[key].add[name]++
		}
	}
}

// Writes are those of the transaction. Counters stay a little longer than what they
// count: the list reads none of what has expired.
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

// counts are the chained records that a filter lets through, by the beginnings of
// windows of one level from .. to.
func (t *Trail) counts(ctx context.Context, accountID string, f Filter, l level, from, to time.Time) (map[time.Time]int, error) {
	out := map[time.Time]int{}
	q := store.Query{PK: countPartition(accountID, f.Actor, l), UpTo: audit.Timestamp(to.Add(-1).Truncate(l.every))}
	q.After = audit.Timestamp(from.Truncate(l.every).Add(-time.Millisecond))
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
			action, how, ok := strings.Cut(name, " ")
			n, isNumber := v.(float64)
			if !ok || !isNumber || f.Action != "" && f.Action != action || f.Success != nil && how != outcome(f.Success) {
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
