package embedded_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// The feed is kept for a day, over restarts, and a mark outlives them.
func TestFeedIsKeptForADay(t *testing.T) {
	fs, c := vfs.NewMem(), &clock{now: time.Date(2026, 1, 2, 3, 10, 0, 0, time.UTC)}
	life := func(use func(*embedded.Backend)) {
		engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, Now: c.Now})
		if err != nil {
			t.Fatal(err)
		}
		embedded.AwaitFirstLook(engine)
		use(engine)
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	oldest := func(engine *embedded.Backend) time.Time {
		told, err := engine.Changes(t.Context(), 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		return told[0].On
	}
	var made []time.Time
	const lives = 80
	for n := range lives {
		made = append(made, c.Now())
		young := slices.IndexFunc(made, func(at time.Time) bool { return c.Now().Sub(at) <= 24*time.Hour })
		life(func(engine *embedded.Backend) { // several an hour, one process each
			put(t, tableOver(engine), n)
			if at := oldest(engine); c.Now().Sub(at) > 26*time.Hour {
				t.Errorf("at %v there is a change of %v", c.Now(), at)
			} else if at.After(made[young]) {
				t.Errorf("at %v the oldest change is of %v, want %v", c.Now(), at, made[young])
			}
			if err := engine.SetMark("reader", uint64(n)); err != nil {
				t.Fatal(err)
			}
		})
		c.pass(25 * time.Minute) // no part of a day: hours begin at all minutes
	}
	life(func(engine *embedded.Backend) {
		if mark, err := engine.Mark("reader"); err != nil || mark != lives-1 {
			t.Errorf("the mark is %d (%v)", mark, err)
		}
		if mark, err := engine.Mark("another"); err != nil || mark != 0 {
			t.Errorf("another mark is %d (%v)", mark, err)
		}
	})
}

// Who waits for changes is woken by one, and by the end of its context.
func TestFeedWaits(t *testing.T) {
	engine := open(t, embedded.Options{Dir: folder, FS: vfs.NewMem()})
	table := tableOver(engine)
	type answer struct {
		told []embedded.Change
		err  error
	}
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan answer)
	follow := func(after uint64) {
		told, err := engine.Changes(ctx, after, 10)
		answers <- answer{told, err}
	}
	go follow(0)
	// A commit that changes nothing is no change.
	if err := table.Commit(t.Context(), store.Delete(numbered(1))); err != nil {
		t.Fatal(err)
	}
	put(t, table, 1)
	got := <-answers
	if got.err != nil || len(got.told) != 1 || got.told[0].Key != numbered(1) {
		t.Fatalf("it is told %+v", got)
	}
	go follow(got.told[0].Seq)
	cancel()
	if got := <-answers; !errors.Is(got.err, context.Canceled) {
		t.Errorf("it is answered with %+v", got)
	}
}
