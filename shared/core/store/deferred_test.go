package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// itemsExist reports for each item whether it is in the table.
func itemsExist(t *testing.T, table *store.Table, names ...string) (out []bool) {
	t.Helper()
	for _, name := range names {
		r := store.Get(key(name), nil)
		if err := table.Load(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Found)
	}
	return out
}

// TestDeferredCommitTakesEffectInCommitDeferred checks that no write of a deciding commit takes effect before
// CommitDeferred. A commit before the deciding commit must take effect immediately, together with the reservation.
func TestDeferredCommitTakesEffectInCommitDeferred(t *testing.T) {
	table := storetest.New(t)
	ctx, deferred := store.DeferCommit(store.WithReadSet(t.Context()), store.Create(key("reservation"), thing{}), nil)
	if err := errors.Join(
		table.Commit(ctx, store.Create(key("first"), thing{})),
		table.Commit(ctx, store.Create(key("second"), thing{})),
		table.Commit(ctx, store.Create(key("record"), thing{}).Final(), store.Create(key("change"), thing{})),
	); err != nil || !deferred.Reserved() {
		t.Fatalf("Commit() before CommitDeferred() = %v, Reserved() = %t, want success, true", err, deferred.Reserved())
	}
	if got := itemsExist(t, table, "reservation", "first", "second"); !got[0] || !got[1] || !got[2] {
		t.Errorf("reservation, first and second exist before CommitDeferred() = %v, want all true", got)
	}
	if got := itemsExist(t, table, "record", "change"); got[0] || got[1] {
		t.Errorf("record and change exist before CommitDeferred() = %v, want both false", got)
	}
	if err := table.CommitDeferred(t.Context(), deferred, nil, store.Create(key("response"), thing{})); err != nil {
		t.Fatalf("CommitDeferred() = %v, want success", err)
	}
	if got := itemsExist(t, table, "record", "change", "response"); !got[0] || !got[1] || !got[2] {
		t.Errorf("record, change and response exist after CommitDeferred() = %v, want all true", got)
	}
}

// TestCallsAfterFinalCommitFail checks that reads and commits after the deciding commit fail. Such a
// read would return the state before the deciding commit, and such a commit would take effect before it. The calls
// succeed under WithoutReadSet.
func TestCallsAfterFinalCommitFail(t *testing.T) {
	table := storetest.New(t)
	for name, next := range map[string]func(context.Context) error{
		"a commit": func(ctx context.Context) error { return table.Commit(ctx, store.Put(key("b"), thing{})) },
		"a second deciding commit": func(ctx context.Context) error {
			return table.Commit(ctx, store.Put(key("b"), thing{}).Final())
		},
		"a read": func(ctx context.Context) error { return table.Load(ctx, store.Get(key("b"), nil)) },
		"a query": func(ctx context.Context) error {
			_, err := table.Keys(ctx, store.Query{PK: "p", Unchecked: "a test"})
			return err
		},
	} {
		ctx, _ := store.DeferCommit(t.Context(), store.Write{}, nil)
		if err := table.Commit(ctx, store.Put(key("a"), thing{}).Final()); err != nil {
			t.Fatal(err)
		}
		if err := next(ctx); err == nil || errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s after the deciding commit = %v, want an error other than %v", name, err, store.ErrNotFound)
		}
		if err := next(store.WithoutReadSet(ctx, "a test")); err != nil {
			t.Errorf("%s with WithoutReadSet after the deciding commit = %v, want success", name, err)
		}
	}
	if got := itemsExist(t, table, "a"); got[0] {
		t.Error("the deciding commit had an effect without CommitDeferred(), want none")
	}
}

// TestRefusedDeferredCommitIsReturnedInNextRun checks that the first deciding commit of the next run returns the
// refusal, and that a later commit of this run can succeed. ErrStale, for records that have changed, is no refusal.
func TestRefusedDeferredCommitIsReturnedInNextRun(t *testing.T) {
	errTaken := errors.New("taken")
	for name, c := range map[string]struct {
		concurrent store.Write
		stale      bool
	}{
		"a false condition":                     {store.Put(key("name"), thing{}), false},
		"a changed record of the read set":      {store.Put(key("read"), thing{Name: "x"}), true},
		"a changed record of the read cache":    {store.Put(key("cached"), thing{Name: "x"}), true},
		"an existing record of the same commit": {store.Put(key("response"), thing{}), true},
	} {
		table := storetest.New(t)
		ctx := store.WithReadSet(t.Context())
		run, deferred := store.DeferCommit(ctx, store.Write{}, nil)
		readCtx, cache := store.WithReadCache(t.Context())
		if err := errors.Join(
			table.Load(run, store.Get(key("read"), &thing{})),
			table.Load(readCtx, store.Get(key("cached"), &thing{}).Unchecked("a test")),
			table.Commit(run, store.Create(key("name"), thing{}).Else(errTaken).Final()),
			table.Commit(t.Context(), c.concurrent),
		); err != nil {
			t.Fatal(err)
		}
		err := table.CommitDeferred(t.Context(), deferred, cache, store.Create(key("response"), thing{}).Else(store.ErrStale))
		refused, ok := errors.AsType[*store.RefusedError](err)
		if errors.Is(err, store.ErrStale) != c.stale || ok == c.stale {
			t.Fatalf("%s: CommitDeferred() = %v, want ErrStale %t, otherwise a RefusedError", name, err, c.stale)
		}
		if c.stale {
			continue
		}
		run, deferred = store.DeferCommit(ctx, store.Write{}, refused.Err)
		create := func() error { return table.Commit(run, store.Create(key("name"), thing{}).Else(errTaken).Final()) }
		if err := create(); !errors.Is(err, errTaken) {
			t.Errorf("%s: Commit() in the next run = %v, want %v", name, err, errTaken)
		}
		if err := errors.Join(create(), table.Commit(t.Context(), store.Delete(key("name"))),
			table.CommitDeferred(t.Context(), deferred, nil)); err != nil {
			t.Errorf("%s: second Commit() in the next run and CommitDeferred() = %v, want success", name, err)
		}
	}
}

func TestAbandonRunsUndoOnce(t *testing.T) {
	table := storetest.New(t)
	ctx, deferred := store.DeferCommit(t.Context(), store.Write{}, nil)
	if err := table.Commit(ctx, store.Put(key("prepared"), thing{})); err != nil {
		t.Fatal(err)
	}
	undone := 0
	store.OnAbandon(ctx, func(ctx context.Context) {
		undone++
		if err := table.Commit(ctx, store.Delete(key("prepared"))); err != nil {
			t.Errorf("Commit() in the undo function = %v, want success", err)
		}
	})
	store.OnAbandon(t.Context(), func(context.Context) {
		t.Error("OnAbandon() runs the function without a deferred commit, want no call")
	})
	deferred.Abandon(ctx)
	deferred.Abandon(ctx)
	if undone != 1 {
		t.Errorf("two calls of Abandon() run the undo function %d times, want once", undone)
	}
	if got := itemsExist(t, table, "prepared"); got[0] {
		t.Error("the item exists after Abandon(), want it deleted")
	}
}

// TestReadCacheReflectsCommits checks that reads from the cache return items in their states after
// the commits under the cache's context, and that reads of items with unknown states return ErrNotCached.
func TestReadCacheReflectsCommits(t *testing.T) {
	backend := memory.New()
	table := storetest.NewWithBackend(t, backend)
	ctx, cache := store.WithReadCache(t.Context())
	if err := errors.Join(
		table.Commit(t.Context(), store.Put(key("read"), thing{Name: "x", Count: 1}), store.Put(key("deleted"), thing{}),
			store.Put(key("updated"), thing{})),
		table.Load(ctx, store.Get(key("read"), nil), store.Get(key("deleted"), nil), store.Get(key("absent"), nil)),
		table.Commit(ctx,
			store.Update(key("read"), store.Add(store.At("count"), 1)),
			store.Delete(key("deleted")),
			store.Put(key("created"), thing{Name: "y"}),
			store.Update(key("updated"), store.Add(store.At("count"), 1)),
			store.Check(key("absent"), store.Absent())),
	); err != nil {
		t.Fatal(err)
	}
	var meter store.Meter
	cacheOnly := cache.CacheOnly(store.WithMeter(t.Context(), &meter))
	var read, created thing
	deleted, absent := store.Get(key("deleted"), nil), store.Get(key("absent"), nil)
	if err := table.Load(cacheOnly, store.Get(key("read"), &read), store.Get(key("created"), &created), deleted,
		absent); err != nil {
		t.Fatalf("Load() from the cache = %v, want success", err)
	}
	if read.Count != 2 || read.Name != "x" || created.Name != "y" {
		t.Errorf("cached items = %+v, %+v, want count 2 and name x, name y", read, created)
	}
	if deleted.Found || absent.Found {
		t.Errorf("cached items: deleted found %t, absent found %t, want false, false", deleted.Found, absent.Found)
	}
	for _, unknown := range []string{"updated", "never"} {
		if err := table.Get(cacheOnly, key(unknown), nil); !errors.Is(err, store.ErrNotCached) {
			t.Errorf("Get(%s) from the cache = %v, want %v", unknown, err, store.ErrNotCached)
		}
	}
	if _, err := table.Count(cacheOnly, store.Query{PK: "p"}); !errors.Is(err, store.ErrNotCached) {
		t.Errorf("Count() from the cache = %v, want %v", err, store.ErrNotCached)
	}
	if u := meter.Usage(); u != (store.Usage{}) {
		t.Errorf("reads from the cache use %+v, want no call of the database", u)
	}
}
