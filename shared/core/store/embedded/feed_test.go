package embedded_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// TestFeedIsKeptForADay checks that changes are kept for a day and not much
// longer, even if the store restarts, and that a mark survives a restart.
func TestFeedIsKeptForADay(t *testing.T) {
	fs, c := vfs.NewMem(), &clock{now: time.Date(2026, 1, 2, 3, 10, 0, 0, time.UTC)}
	run := func(use func(*embedded.Backend)) {
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		embedded.AwaitHousekeeping(engine)
		use(engine)
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	oldest := func(engine *embedded.Backend) time.Time {
		changes, err := engine.Changes(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return changes[0].Time
	}
	var times []time.Time
	const restarts = 80
	for n := range restarts {
		times = append(times, c.Now())
		oldestKept := slices.IndexFunc(times, func(at time.Time) bool { return c.Now().Sub(at) <= 24*time.Hour })
		run(func(engine *embedded.Backend) { // several changes per hour, each in its own process
			put(t, tableOver(engine), n)
			if at := oldest(engine); c.Now().Sub(at) > 26*time.Hour {
				t.Errorf("at %v the oldest change is of %v, want at most 26h before", c.Now(), at)
			} else if at.After(times[oldestKept]) {
				t.Errorf("at %v the oldest change is of %v, want %v or earlier", c.Now(), at, times[oldestKept])
			}
			if err := engine.SetMark("reader", uint64(n)); err != nil {
				t.Fatal(err)
			}
		})
		c.advance(25 * time.Minute) // not a divisor of an hour: changes are at different minutes
	}
	run(func(engine *embedded.Backend) {
		if mark, err := engine.Mark("reader"); err != nil || mark != restarts-1 {
			t.Errorf("Mark(reader) = %d, %v, want %d", mark, err, restarts-1)
		}
		if mark, err := engine.Mark("another"); err != nil || mark != 0 {
			t.Errorf("Mark(another) = %d, %v, want 0", mark, err)
		}
	})
}

// TestFeedWaits checks that a change wakes a waiting reader, and that the end of the reader's context wakes it too.
func TestFeedWaits(t *testing.T) {
	engine := open(t, embedded.Options{Dir: folder, FS: vfs.NewMem()})
	table := tableOver(engine)
	type result struct {
		changes []embedded.Change
		err     error
	}
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan result)
	follow := func(after uint64) {
		changes, err := engine.Changes(ctx, after, 10)
		results <- result{changes, err}
	}
	go follow(0)
	// A commit that changes nothing adds no change.
	if err := table.Commit(t.Context(), store.Delete(numberedKey(1))); err != nil {
		t.Fatal(err)
	}
	put(t, table, 1)
	got := <-results
	if got.err != nil || len(got.changes) != 1 || got.changes[0].Key != numberedKey(1) {
		t.Fatalf("Changes() = %+v, want one change of %v", got, numberedKey(1))
	}
	go follow(got.changes[0].Seq)
	cancel()
	if got := <-results; !errors.Is(got.err, context.Canceled) {
		t.Errorf("Changes() with a canceled context = %+v, want %v", got, context.Canceled)
	}
}
