package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// versioned is a record with a version.
type versioned struct {
	ID      string `dynamodbav:"id"`
	Version int    `dynamodbav:"version"`
	Text    string `dynamodbav:"text,omitempty"`
}

// readSetCase is a change that reads and commits, with a concurrent change between the two. stale is whether the
// commit of the first attempt fails because of the concurrent change. wantErr is whether RunInTx
// returns an error.
type readSetCase struct {
	name           string
	before         []store.Write
	read           func(context.Context, *store.Table) error
	concurrent     []store.Write
	commit         []store.Write
	stale, wantErr bool
}

// readSetCases returns changes of the records a and b.
func readSetCases() []readSetCase {
	a, b := key("a"), key("b")
	read := func(k store.Key, record any) func(context.Context, *store.Table) error {
		return func(ctx context.Context, table *store.Table) error { return table.Load(ctx, store.Get(k, record)) }
	}
	change := func(writes ...store.Write) []store.Write { return writes }
	x, y := change(store.Put(a, thing{Name: "x"})), change(store.Put(a, thing{Name: "y"}))
	empty, deleted, other := change(store.Put(a, thing{})), change(store.Delete(a)), change(store.Put(b, thing{}))
	return []readSetCase{
		{"no concurrent change", x, read(a, &thing{}), nil, other, false, false},
		{"a changed record that was read and is not written", x, read(a, &thing{}), y, other, true, false},
		{"a changed record that was read and is written", x, read(a, &thing{}), y, deleted, true, false},
		{
			"a new attribute", empty, read(a, &thing{}),
			change(store.Upsert(a, store.Set(store.At("count"), 7))), other, true, false,
		},
		{"a new record that was read as absent", nil, read(a, &thing{}), empty, other, true, false},
		{"an absent record", nil, read(a, &thing{}), nil, other, false, false},
		{"a new record that was checked for its existence", nil, read(a, nil), empty, other, true, false},
		{"a deleted record that was checked for its existence", empty, read(a, nil), deleted, other, true, false},
		{"a changed record that was checked for its existence", x, read(a, nil), y, other, false, false},
		{
			"a changed record that was read and checked for its existence", x,
			func(ctx context.Context, table *store.Table) error {
				return errors.Join(table.Load(ctx, store.Get(a, &thing{})), table.Load(ctx, store.Get(a, nil)))
			},
			y, other, true, false,
		},
		{
			"a new version", change(store.Put(a, versioned{"1", 1, "x"})), read(a, &versioned{}),
			change(store.Put(a, versioned{"1", 2, "x"})), other, true, false,
		},
		{
			"another record of the same version", change(store.Put(a, versioned{"1", 1, "x"})), read(a, &versioned{}),
			change(store.Put(a, versioned{"2", 1, "x"})), other, true, false,
		},
		{
			"an unchecked read", x,
			func(ctx context.Context, table *store.Table) error {
				return table.Load(ctx, store.Get(a, &thing{}).Unchecked("a test"))
			},
			y, other, false, false,
		},
		{"a query without Unchecked", nil, func(ctx context.Context, table *store.Table) error {
			_, err := table.Keys(ctx, store.Query{PK: a.PK})
			return err
		}, nil, other, false, true},
		{"an unchecked query", nil, func(ctx context.Context, table *store.Table) error {
			_, err := table.Keys(ctx, store.Query{PK: a.PK, Unchecked: "a test"})
			return err
		}, nil, other, false, false},
	}
}

// TestCommitFailsIfReadSetChanged changes a record between the read and the commit of a change. If the read set is
// stale, RunInTx must repeat the change, and the commit must be throttled outside of RunInTx.
func TestCommitFailsIfReadSetChanged(t *testing.T) {
	for _, c := range readSetCases() {
		t.Run(c.name, func(t *testing.T) {
			table := storetest.New(t)
			attempts := 0
			if err := table.Commit(t.Context(), c.before...); err != nil {
				t.Fatal(err)
			}
			change := func(ctx context.Context) error {
				attempts++
				if err := c.read(ctx, table); err != nil {
					return err
				}
				if attempts == 1 {
					if err := table.Commit(t.Context(), c.concurrent...); err != nil {
						return err
					}
				}
				return table.Commit(ctx, c.commit...)
			}
			err := table.RunInTx(t.Context(), change)
			if (err != nil) != c.wantErr || (attempts == 2) != c.stale {
				t.Errorf("RunInTx() = %v after %d attempts, want error %t, a second attempt %t",
					err, attempts, c.wantErr, c.stale)
			}
			if !c.stale {
				return
			}
			table, attempts = storetest.New(t), 0
			if err := table.Commit(t.Context(), c.before...); err != nil {
				t.Fatal(err)
			}
			if err := change(store.WithReadSet(t.Context())); !fault.Is(err, fault.Throttled) {
				t.Errorf("the change outside of RunInTx() = %v, want throttled", err)
			}
		})
	}
}

func TestReadSetAllowsOwnCommits(t *testing.T) {
	table := storetest.New(t)
	ctx := store.WithReadSet(t.Context())
	for n := range 3 {
		var record thing
		if err := table.Load(ctx, store.Get(key("a"), &record)); err != nil || record.Count != int64(n) {
			t.Fatalf("Load(a) = %d, %v, want %d", record.Count, err, n)
		}
		if err := table.Commit(ctx, store.Put(key("a"), thing{Count: int64(n) + 1})); err != nil {
			t.Fatalf("Commit() after %d own commits = %v, want success", n, err)
		}
	}
}

// TestSecondCommitChecksReadSet checks that the second commit under a context also requires that the read set is unchanged.
func TestSecondCommitChecksReadSet(t *testing.T) {
	table := storetest.New(t)
	ctx := store.WithReadSet(t.Context())
	if err := errors.Join(
		table.Load(ctx, store.Get(key("a"), &thing{})),
		table.Commit(ctx, store.Put(key("b"), thing{})),
		table.Commit(t.Context(), store.Put(key("a"), thing{})),
	); err != nil {
		t.Fatal(err)
	}
	if err := table.Commit(ctx, store.Put(key("c"), thing{})); !fault.Is(err, fault.Throttled) {
		t.Errorf("second Commit() after a change = %v, want throttled", err)
	}
}

// TestRunInTxChecksOuterReadSet checks that RunInTx or a later commit is throttled
// if a record of the outer read set was changed concurrently. A change that an
// attempt itself has made does not make later commits of the outer read set fail.
func TestRunInTxChecksOuterReadSet(t *testing.T) {
	for _, concurrent := range []bool{false, true} {
		table := storetest.New(t)
		ctx := store.WithReadSet(t.Context())
		err := table.Load(ctx, store.Get(key("a"), &thing{}))
		if concurrent && err == nil {
			err = table.Commit(t.Context(), store.Put(key("a"), thing{Name: "another's"}))
		}
		if err != nil {
			t.Fatal(err)
		}
		err = table.RunInTx(ctx, func(ctx context.Context) error {
			return table.Commit(ctx, store.Put(key("a"), thing{Name: "its own"}))
		})
		if err == nil {
			err = table.Commit(ctx, store.Put(key("b"), thing{}))
		}
		if concurrent != fault.Is(err, fault.Throttled) || !concurrent && err != nil {
			t.Errorf("RunInTx() and a later Commit(), concurrent change %t = %v, want throttled only with a concurrent change",
				concurrent, err)
		}
	}
}

func TestChangedSecondReadIsStale(t *testing.T) {
	for name, first := range map[string][]store.Write{
		"a creation": nil, "a change": {store.Put(key("a"), thing{Name: "x"})},
	} {
		table := storetest.New(t)
		ctx := store.WithReadSet(t.Context())
		if err := errors.Join(
			table.Commit(t.Context(), first...),
			table.Load(ctx, store.Get(key("a"), &thing{})),
			table.Commit(t.Context(), store.Put(key("a"), thing{Name: "y"})),
		); err != nil {
			t.Fatal(err)
		}
		if err := table.Load(ctx, store.Get(key("a"), &thing{})); !errors.Is(err, store.ErrStale) {
			t.Errorf("second Load(a) after %s = %v, want %v", name, err, store.ErrStale)
		}
	}
}

// TestTornReadShowsConcurrentCommit writes two records in one commit in the middle of a read of both. Each read must
// return one record from before the commit and one from after it. Each of the two records must be the old one in some
// of the 20 reads.
func TestTornReadShowsConcurrentCommit(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		backend := memory.New()
		table := storetest.NewWithBackend(t, backend)
		backend.Tear(seed, func(ctx context.Context) error {
			return table.Commit(ctx, store.Put(key("a"), thing{Name: "new"}), store.Put(key("b"), thing{Name: "new"}))
		})
		var a, b thing
		if err := table.Load(t.Context(), store.Get(key("a"), &a), store.Get(key("b"), &b)); err != nil {
			t.Fatalf("Load() with seed %d = %v, want success", seed, err)
		}
		seen[a.Name+"/"+b.Name] = true
	}
	if !seen["new/"] || !seen["/new"] || len(seen) != 2 {
		t.Errorf("names of a/b in 20 calls of Load() = %v, want \"new/\" and \"/new\"", seen)
	}
}

// TestReadWithUnprocessedKeysIsRetried checks that a read repeats unprocessed keys and
// does not report their items as missing. A read without progress must fail as throttled.
func TestReadWithUnprocessedKeysIsRetried(t *testing.T) {
	for failures, want := range map[int]error{0: nil, 1: nil, 9: nil, 100: store.ErrRetryable} {
		backend := memory.New()
		table := storetest.NewWithBackend(t, backend)
		if err := table.Commit(t.Context(), store.Put(key("a"), thing{Name: "x"}),
			store.Put(key("b"), thing{Name: "y"})); err != nil {
			t.Fatal(err)
		}
		remaining := failures
		backend.Tear(1, func(context.Context) error {
			if remaining--; remaining >= 0 {
				return store.ErrRetryable
			}
			return nil
		})
		var a, b thing
		err := table.Load(t.Context(), store.Get(key("a"), &a), store.Get(key("b"), &b))
		if !errors.Is(err, want) {
			t.Errorf("Load() with %d reads that leave a key unprocessed = %v, want %v", failures, err, want)
		}
		if fault.Is(err, fault.Throttled) != (want != nil) {
			t.Errorf("Load() with %d reads that leave a key unprocessed = %v, want the kind %v = %t",
				failures, err, fault.Throttled, want != nil)
		}
		if err == nil && (a.Name != "x" || b.Name != "y") {
			t.Errorf("Load() with %d reads that leave a key unprocessed: records %+v, %+v, want the names x and y",
				failures, a, b)
		}
	}
}

func TestMemoryRefusesChangeWithSameVersion(t *testing.T) {
	table := storetest.New(t)
	if err := table.Commit(t.Context(), store.Put(key("a"), versioned{"1", 1, "x"})); err != nil {
		t.Fatal(err)
	}
	err := table.Commit(t.Context(), store.Update(key("a"), store.Set(store.At("text"), "y")))
	if err == nil || !strings.Contains(err.Error(), "keeps its version") {
		t.Errorf("Commit() without a new version = %v, want an error with \"keeps its version\"", err)
	}
}
