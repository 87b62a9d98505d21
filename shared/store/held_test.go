package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// has lists the items that are in a table.
func has(t *testing.T, table *store.Table, names ...string) (out []bool) {
	t.Helper()
	for _, name := range names {
		w := store.Want(key(name), nil)
		if err := table.Load(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		out = append(out, w.Found)
	}
	return out
}

// TestAHeldChangeIsMadeWithWhatIsCommittedWithIt: before, nothing of its deciding
// commit is there; a commit before that one is made at once, with the reservation.
func TestAHeldChangeIsMadeWithWhatIsCommittedWithIt(t *testing.T) {
	table := storetest.New(t)
	ctx, held := store.Hold(store.Decide(t.Context()), store.Create(key("reservation"), thing{}), nil)
	if err := errors.Join(
		table.Commit(ctx, store.Create(key("first"), thing{})),
		table.Commit(ctx, store.Create(key("second"), thing{})),
		table.Commit(ctx, store.Create(key("record"), thing{}).Decides(), store.Create(key("change"), thing{})),
	); err != nil || !held.Reserved() {
		t.Fatal(err, held.Reserved())
	}
	if got := has(t, table, "reservation", "first", "second", "record", "change"); !got[0] || !got[1] || !got[2] || got[3] || got[4] {
		t.Errorf("before it is settled there are %v", got)
	}
	if err := table.Settle(t.Context(), held, nil, store.Create(key("answer"), thing{})); err != nil {
		t.Fatal(err)
	}
	if got := has(t, table, "record", "change", "answer"); !got[0] || !got[1] || !got[2] {
		t.Errorf("afterwards there are %v", got)
	}
}

// TestNothingFollowsADecidingCommit: what is read there would be from before it, and
// what is committed would happen without it.
func TestNothingFollowsADecidingCommit(t *testing.T) {
	table := storetest.New(t)
	for name, next := range map[string]func(context.Context) error{
		"a commit": func(ctx context.Context) error { return table.Commit(ctx, store.Put(key("b"), thing{})) },
		"a second decision": func(ctx context.Context) error {
			return table.Commit(ctx, store.Put(key("b"), thing{}).Decides())
		},
		"a read": func(ctx context.Context) error { return table.Load(ctx, store.Want(key("b"), nil)) },
		"a query": func(ctx context.Context) error {
			_, err := table.Keys(ctx, store.Query{PK: "p", Unchecked: "a test"})
			return err
		},
	} {
		ctx, _ := store.Hold(t.Context(), store.Write{}, nil)
		if err := table.Commit(ctx, store.Put(key("a"), thing{}).Decides()); err != nil {
			t.Fatal(err)
		}
		if err := next(ctx); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s is let pass", name)
		}
		if err := next(store.Undecided(ctx, "a test")); err != nil {
			t.Errorf("%s that is no part of the change: %v", name, err)
		}
	}
	if got := has(t, table, "a"); got[0] {
		t.Error("a change is made that nobody has settled")
	}
}

// TestWhatASettledChangeIsRefusedForIsTheServicesToHear, by the next run; that
// something was read that is stale now is everybody's.
func TestWhatASettledChangeIsRefusedForIsTheServicesToHear(t *testing.T) {
	errTaken := errors.New("taken")
	for name, c := range map[string]struct {
		meanwhile store.Write
		stale     bool
	}{
		"a condition of its own": {store.Put(key("name"), thing{}), false},
		"what it has read":       {store.Put(key("read"), thing{Name: "x"}), true},
		"what it depends on":     {store.Put(key("seen"), thing{Name: "x"}), true},
		"what goes with it":      {store.Put(key("answer"), thing{}), true},
	} {
		table := storetest.New(t)
		ctx := store.Decide(t.Context())
		run, held := store.Hold(ctx, store.Write{}, nil)
		looking, depends := store.Note(t.Context())
		if err := errors.Join(
			table.Load(run, store.Want(key("read"), &thing{})),
			table.Load(looking, store.Want(key("seen"), &thing{}).Unchecked("a test")),
			table.Commit(run, store.Create(key("name"), thing{}).Else(errTaken).Decides()),
			table.Commit(t.Context(), c.meanwhile),
		); err != nil {
			t.Fatal(err)
		}
		err := table.Settle(t.Context(), held, depends, store.Create(key("answer"), thing{}).Else(store.ErrStale))
		refused, ok := errors.AsType[*store.RefusedError](err)
		if errors.Is(err, store.ErrStale) != c.stale || ok == c.stale {
			t.Fatalf("%s: answered %v", name, err)
		}
		if c.stale {
			continue
		}
		run, held = store.Hold(ctx, store.Write{}, refused.Err)
		again := func() error { return table.Commit(run, store.Create(key("name"), thing{}).Else(errTaken).Decides()) }
		if err := again(); !errors.Is(err, errTaken) {
			t.Errorf("%s: the next run hears %v", name, err)
		}
		if err := errors.Join(again(), table.Commit(t.Context(), store.Delete(key("name"))), table.Settle(t.Context(), held, nil)); err != nil {
			t.Errorf("%s: the one after that hears %v", name, err)
		}
	}
}

func TestAnAbandonedChangeIsUndone(t *testing.T) {
	table := storetest.New(t)
	ctx, held := store.Hold(t.Context(), store.Write{}, nil)
	if err := table.Commit(ctx, store.Put(key("prepared"), thing{})); err != nil {
		t.Fatal(err)
	}
	store.OnAbandon(ctx, func(ctx context.Context) {
		if err := table.Commit(ctx, store.Delete(key("prepared"))); err != nil {
			t.Error(err)
		}
	})
	store.OnAbandon(t.Context(), func(context.Context) { t.Error("a change that is not held is undone") })
	held.Abandon(ctx)
	held.Abandon(ctx)
	if got := has(t, table, "prepared"); got[0] {
		t.Error("what was prepared is left")
	}
}

// TestNotesTellWhatAReadWouldBeAnswered after the commits of a context, and nothing
// that they do not know.
func TestNotesTellWhatAReadWouldBeAnswered(t *testing.T) {
	backend := memory.New()
	table := storetest.Over(t, backend)
	ctx, notes := store.Note(t.Context())
	if err := errors.Join(
		table.Commit(t.Context(), store.Put(key("read"), thing{Name: "x", Count: 1}), store.Put(key("gone"), thing{}), store.Put(key("updated"), thing{})),
		table.Load(ctx, store.Want(key("read"), nil), store.Want(key("gone"), nil), store.Want(key("absent"), nil)),
		table.Commit(ctx,
			store.Update(key("read"), store.Add(store.At("count"), 1)),
			store.Delete(key("gone")),
			store.Put(key("made"), thing{Name: "y"}),
			store.Update(key("updated"), store.Add(store.At("count"), 1)),
			store.Check(key("absent"), store.Absent())),
	); err != nil {
		t.Fatal(err)
	}
	var meter store.Meter
	recall := notes.Recall(store.WithMeter(t.Context(), &meter))
	var read, made thing
	gone, absent := store.Want(key("gone"), nil), store.Want(key("absent"), nil)
	if err := table.Load(recall, store.Want(key("read"), &read), store.Want(key("made"), &made), gone, absent); err != nil {
		t.Fatal(err)
	}
	if read.Count != 2 || read.Name != "x" || made.Name != "y" || gone.Found || absent.Found {
		t.Errorf("it recalls %+v, %+v, %v, %v", read, made, gone.Found, absent.Found)
	}
	for _, unknown := range []string{"updated", "never"} {
		if err := table.Get(recall, key(unknown), nil); !errors.Is(err, store.ErrUnknown) {
			t.Errorf("of what is %s it says %v", unknown, err)
		}
	}
	if _, err := table.Count(recall, store.Query{PK: "p"}); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("to a query it says %v", err)
	}
	if u := meter.Usage(); u != (store.Usage{}) {
		t.Errorf("the table is asked: %+v", u)
	}
}
