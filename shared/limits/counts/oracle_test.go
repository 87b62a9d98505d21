package counts_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// oracle is what docs/limits.md says of a limit, and no more: who is there, and how many may be.
type oracle struct {
	*world
	limit limits.Limit
	// installation and own are the values, own 0 for none; of a Daily limit day is when what is in today was made.
	installation, own int64
	there             map[string]bool
	day               time.Time
	today             int
	// changed is that time or the limit changed in the middle of the call under way, fewest and most how many there were in it.
	changed      bool
	fewest, most int
	// unseen is when a release without limits made the last thing.
	unseen time.Time
	made   int
	inside bool
}

var errKilled = errors.New("the process was killed")

func (o *oracle) value() int64 {
	if o.own > 0 {
		return o.own
	}
	return o.installation
}

func (o *oracle) count() int {
	if o.limit.Kind != limits.Daily {
		return len(o.there)
	}
	if day := o.now.Truncate(24 * time.Hour); !day.Equal(o.day) {
		o.day, o.today = day, 0
	}
	return o.today
}

func (o *oracle) saw() {
	n := o.count()
	o.fewest, o.most = min(o.fewest, n), max(o.most, n)
}

// Make makes n things by one process, while another does something, or the process is killed before or after its commit.
func (o *oracle) Make(t *rapid.T) {
	o.made++
	n, base := rapid.SampledFrom([]int{1, 1, 1, 3}).Draw(t, "n"), fmt.Sprint("thing-", o.made)
	process := 1
	var kill, late bool
	var meanwhile func()
	if !o.inside {
		process = 0
		o.changed, o.fewest, o.most = false, o.count(), o.count()
		switch rapid.IntRange(0, 4).Draw(t, "trouble") {
		case 0:
			kill, late = true, rapid.Bool().Draw(t, "late")
		case 1:
			meanwhile = func() { o.inside = true; o.Do(t); o.inside = false }
		}
	}
	c := o.counts[process]
	var decided time.Time
	err := o.table.Again(t.Context(), func(ctx context.Context) error {
		decided = o.now
		tally, err := c.Load(ctx, "acme", o.limit)
		if err != nil {
			return err
		}
		room, err := tally.Take(ctx, int64(n), o.world.there)
		if err != nil {
			return err
		}
		if do := meanwhile; do != nil {
			meanwhile = nil
			do()
		}
		if kill && !late {
			return errKilled
		}
		writes := []store.Write{room}
		for i := range n {
			writes = append(writes, store.Create(store.In(things.Partition("acme"), fmt.Sprint(base, "-", i)), struct{}{}))
		}
		if err := o.table.Commit(ctx, writes...); err != nil {
			return err
		}
		if kill {
			return errKilled
		}
		return nil
	})
	refused := fault.Is(err, fault.Forbidden) || fault.Is(err, fault.Throttled)
	switch {
	case refused && o.most+n <= int(o.value()) && !o.changed && o.known():
		t.Fatalf("%d more were refused, where are %d of %d: %v", n, o.most, o.value(), err)
	case refused, kill && !late:
		return
	case err != nil && !kill:
		t.Fatalf("make %d: %v", n, err)
	}
	for i := range n {
		o.there[fmt.Sprint(base, "-", i)] = true
	}
	if o.count(); o.day.Equal(decided.Truncate(24 * time.Hour)) {
		o.today += n // or it counts for the day on which it was decided
	}
	o.saw()
	if o.count() > int(o.value()) && !o.changed && o.known() {
		t.Fatalf("%d were made, and there are %d of %d", n, o.count(), o.value())
	}
}

// known is that no release without limits has made anything for a day.
func (o *oracle) known() bool { return o.now.Sub(o.unseen) >= 24*time.Hour }

// Remove removes something, and tells nobody.
func (o *oracle) Remove(t *rapid.T) {
	names := slices.Sorted(maps.Keys(o.there))
	if len(names) == 0 {
		return
	}
	name := rapid.SampledFrom(names).Draw(t, "name")
	if err := o.table.Commit(t.Context(), store.Delete(store.In(things.Partition("acme"), name))); err != nil {
		t.Fatal(err)
	}
	delete(o.there, name)
	o.saw()
}

// Earlier makes something as a release without limits does.
func (o *oracle) Earlier(t *rapid.T) {
	o.made++
	name := fmt.Sprint("unseen-", o.made)
	if err := o.table.Commit(t.Context(), store.Create(store.In(things.Partition("acme"), name), struct{}{})); err != nil {
		t.Fatal(err)
	}
	o.there[name], o.unseen = true, o.now
	o.saw()
}

// Own gives the account a value of its own, or takes it away.
func (o *oracle) Own(t *rapid.T) {
	o.own = rapid.SampledFrom([]int64{0, 1, 2, 4, 9}).Draw(t, "own")
	if err := o.counts[rapid.IntRange(0, 1).Draw(t, "process")].Set(t.Context(), "acme", o.limit, o.own); err != nil {
		t.Fatal(err)
	}
	o.changed = true
}

func (o *oracle) Time(t *rapid.T) {
	o.now = o.now.Add(rapid.SampledFrom([]time.Duration{time.Second, 7 * time.Hour, 25 * time.Hour}).Draw(t, "time"))
	o.changed = true
	o.saw()
}

// Do does one thing.
func (o *oracle) Do(t *rapid.T) {
	switch n := rapid.IntRange(0, 19).Draw(t, "do"); {
	case n < 10:
		o.Make(t)
	case n < 15:
		o.Remove(t)
	case n < 16 && o.limit.Kind == limits.Kept:
		o.Earlier(t)
	case n < 18:
		o.Own(t)
	default:
		o.Time(t)
	}
}

// check compares what is there, and what is known of it, with the oracle.
func (o *oracle) check(t *rapid.T) {
	n, err := o.world.there(t.Context())
	if err != nil || int(n) != len(o.there) {
		t.Fatalf("there are %d, %v, want %v", n, err, o.there)
	}
	all, err := o.counts[0].List(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	s := all[slices.IndexFunc(all, func(s counts.Status) bool { return s.Name == o.limit.Name })]
	switch {
	case s.Value != o.value():
		t.Fatalf("the limit is %d, want %d", s.Value, o.value())
	case o.limit.Kind == limits.Daily && s.Bound != int64(o.count()):
		t.Fatalf("today there are %d, and are told to be %d", o.count(), s.Bound)
	case o.limit.Kind == limits.Kept && s.Bound >= 0 && s.Bound < int64(o.count()) && o.known():
		t.Fatalf("there are %d, and are told to be %d at most", o.count(), s.Bound)
	}
}

// TestLimitIsAsAnOracleHasIt: whatever two processes make and remove, one in the middle of the other's work, or killed before
// or after its commit, what a release without limits makes beside them, whatever the limit becomes and however much time
// passes: never one more than there may be, none refused below it, all of several or none, and a
// repeat is counted as what it makes.
func TestLimitIsAsAnOracleHasIt(t *testing.T) {
	for _, l := range []limits.Limit{limits.Projects, limits.Deployments} {
		t.Run(l.Name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				o := &oracle{world: newWorld(t, 5), limit: l, installation: 5, there: map[string]bool{}}
				for range 60 {
					o.Do(rt)
					o.check(rt)
				}
			})
		})
	}
}
