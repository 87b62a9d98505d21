package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// versioned is a record that tells its states apart.
type versioned struct {
	ID      string `dynamodbav:"id"`
	Version int    `dynamodbav:"version"`
	Text    string `dynamodbav:"text,omitempty"`
}

// TestCommitHoldsOnlyOverWhatItWasDecidedFrom has a record change between the
// read and the commit of a decision.
func TestCommitHoldsOnlyOverWhatItWasDecidedFrom(t *testing.T) {
	a, b := key("a"), key("b")
	read := func(k store.Key, into any) func(context.Context, *store.Table) error {
		return func(ctx context.Context, table *store.Table) error { return table.Load(ctx, store.Want(k, into)) }
	}
	for _, c := range []struct {
		name          string
		before        []store.Write
		read          func(context.Context, *store.Table) error
		meanwhile     []store.Write
		commit        []store.Write
		stale, broken bool
	}{
		{"nothing happens", []store.Write{store.Put(a, thing{Name: "x"})}, read(a, &thing{}), nil, []store.Write{store.Put(b, thing{})}, false, false},
		{"read and not written", []store.Write{store.Put(a, thing{Name: "x"})}, read(a, &thing{}), []store.Write{store.Put(a, thing{Name: "y"})}, []store.Write{store.Put(b, thing{})}, true, false},
		{"read and written", []store.Write{store.Put(a, thing{Name: "x"})}, read(a, &thing{}), []store.Write{store.Put(a, thing{Name: "y"})}, []store.Write{store.Delete(a)}, true, false},
		{"an attribute comes", []store.Write{store.Put(a, thing{})}, read(a, &thing{}), []store.Write{store.Upsert(a, store.Set(store.At("count"), 7))}, []store.Write{store.Put(b, thing{})}, true, false},
		{"absent and made", nil, read(a, &thing{}), []store.Write{store.Put(a, thing{})}, []store.Write{store.Put(b, thing{})}, true, false},
		{"absent and still so", nil, read(a, &thing{}), nil, []store.Write{store.Put(b, thing{})}, false, false},
		{"asked whether it is there, and made", nil, read(a, nil), []store.Write{store.Put(a, thing{})}, []store.Write{store.Put(b, thing{})}, true, false},
		{"there and deleted", []store.Write{store.Put(a, thing{})}, read(a, nil), []store.Write{store.Delete(a)}, []store.Write{store.Put(b, thing{})}, true, false},
		{"only whether it is there", []store.Write{store.Put(a, thing{Name: "x"})}, read(a, nil), []store.Write{store.Put(a, thing{Name: "y"})}, []store.Write{store.Put(b, thing{})}, false, false},
		{"read, and then asked whether it is there", []store.Write{store.Put(a, thing{Name: "x"})}, func(ctx context.Context, table *store.Table) error {
			return errors.Join(table.Load(ctx, store.Want(a, &thing{})), table.Load(ctx, store.Want(a, nil)))
		}, []store.Write{store.Put(a, thing{Name: "y"})}, []store.Write{store.Put(b, thing{})}, true, false},
		{"another version", []store.Write{store.Put(a, versioned{"1", 1, "x"})}, read(a, &versioned{}), []store.Write{store.Put(a, versioned{"1", 2, "x"})}, []store.Write{store.Put(b, thing{})}, true, false},
		{"another of the version", []store.Write{store.Put(a, versioned{"1", 1, "x"})}, read(a, &versioned{}), []store.Write{store.Put(a, versioned{"2", 1, "x"})}, []store.Write{store.Put(b, thing{})}, true, false},
		{"what was read does not matter", []store.Write{store.Put(a, thing{Name: "x"})}, func(ctx context.Context, table *store.Table) error {
			return table.Load(ctx, store.Want(a, &thing{}).Unchecked("a test"))
		}, []store.Write{store.Put(a, thing{Name: "y"})}, []store.Write{store.Put(b, thing{})}, false, false},
		{"a query of which nobody says why", nil, func(ctx context.Context, table *store.Table) error {
			_, err := table.Keys(ctx, store.Query{PK: a.PK})
			return err
		}, nil, []store.Write{store.Put(b, thing{})}, false, true},
		{"a query that conditions stand for", nil, func(ctx context.Context, table *store.Table) error {
			_, err := table.Keys(ctx, store.Query{PK: a.PK, Unchecked: "a test"})
			return err
		}, nil, []store.Write{store.Put(b, thing{})}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := storetest.New(t)
			attempts := 0
			err := table.Commit(t.Context(), c.before...)
			decide := func(ctx context.Context) error {
				attempts++
				if err := c.read(ctx, table); err != nil {
					return err
				}
				if attempts == 1 {
					if err := table.Commit(t.Context(), c.meanwhile...); err != nil {
						return err
					}
				}
				return table.Commit(ctx, c.commit...)
			}
			if err == nil {
				err = table.Again(t.Context(), decide)
			}
			if (err != nil) != c.broken || (attempts == 2) != c.stale {
				t.Errorf("answered %v after %d attempts", err, attempts)
			}
			if !c.stale {
				return
			}
			table, attempts = storetest.New(t), 0
			if err := table.Commit(t.Context(), c.before...); err != nil {
				t.Fatal(err)
			}
			if err := decide(store.Decide(t.Context())); !fault.Is(err, fault.Throttled) {
				t.Errorf("outside of Again it is answered %v", err)
			}
		})
	}
}

func TestDecisionSeesItsOwnCommits(t *testing.T) {
	table := storetest.New(t)
	ctx := store.Decide(t.Context())
	for n := range 3 {
		var had thing
		if err := table.Load(ctx, store.Want(key("a"), &had)); err != nil || had.Count != int64(n) {
			t.Fatalf("read %d, %v", had.Count, err)
		}
		if err := table.Commit(ctx, store.Put(key("a"), thing{Count: int64(n) + 1})); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEveryCommitOfADecisionHoldsOverWhatItHasRead, the second one too.
func TestEveryCommitOfADecisionHoldsOverWhatItHasRead(t *testing.T) {
	table := storetest.New(t)
	ctx := store.Decide(t.Context())
	if err := errors.Join(
		table.Load(ctx, store.Want(key("a"), &thing{})),
		table.Commit(ctx, store.Put(key("b"), thing{})),
		table.Commit(t.Context(), store.Put(key("a"), thing{})),
	); err != nil {
		t.Fatal(err)
	}
	if err := table.Commit(ctx, store.Put(key("c"), thing{})); !fault.Is(err, fault.Throttled) {
		t.Errorf("answered %v", err)
	}
}

// TestAttemptIsDecidedFromWhatWasReadBeforeIt, and what it changes is no surprise
// to what comes after it.
func TestAttemptIsDecidedFromWhatWasReadBeforeIt(t *testing.T) {
	for _, foreign := range []bool{false, true} {
		table := storetest.New(t)
		ctx := store.Decide(t.Context())
		err := table.Load(ctx, store.Want(key("a"), &thing{}))
		if foreign && err == nil {
			err = table.Commit(t.Context(), store.Put(key("a"), thing{Name: "another's"}))
		}
		if err != nil {
			t.Fatal(err)
		}
		err = table.Again(ctx, func(ctx context.Context) error { return table.Commit(ctx, store.Put(key("a"), thing{Name: "its own"})) })
		if err == nil {
			err = table.Commit(ctx, store.Put(key("b"), thing{}))
		}
		if foreign != fault.Is(err, fault.Throttled) || !foreign && err != nil {
			t.Errorf("changed by another meanwhile %v: answered %v", foreign, err)
		}
	}
}

func TestRecordThatIsReadTwiceDifferentlyIsStale(t *testing.T) {
	for name, first := range map[string][]store.Write{"made": nil, "changed": {store.Put(key("a"), thing{Name: "x"})}} {
		table := storetest.New(t)
		ctx := store.Decide(t.Context())
		if err := errors.Join(
			table.Commit(t.Context(), first...),
			table.Load(ctx, store.Want(key("a"), &thing{})),
			table.Commit(t.Context(), store.Put(key("a"), thing{Name: "y"})),
		); err != nil {
			t.Fatal(err)
		}
		if err := table.Load(ctx, store.Want(key("a"), &thing{})); !errors.Is(err, store.ErrStale) {
			t.Errorf("%s in between: answered %v", name, err)
		}
	}
}

// TestTornReadShowsWhatHappensInBetween writes two records in one commit in the
// middle of a read of both.
func TestTornReadShowsWhatHappensInBetween(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(20) {
		backend := memory.New()
		table := storetest.Over(t, backend)
		backend.Tear(seed, func(ctx context.Context) error {
			return table.Commit(ctx, store.Put(key("a"), thing{Name: "new"}), store.Put(key("b"), thing{Name: "new"}))
		})
		var a, b thing
		if err := table.Load(t.Context(), store.Want(key("a"), &a), store.Want(key("b"), &b)); err != nil {
			t.Fatal(err)
		}
		seen[a.Name+"/"+b.Name] = true
	}
	if !seen["new/"] || !seen["/new"] || len(seen) != 2 {
		t.Errorf("reads show %v", seen)
	}
}

// TestReadOfWhichKeysStayUnprocessedIsMadeAgain: none of it is taken for absent,
// and one that never gets on is a throttle.
func TestReadOfWhichKeysStayUnprocessedIsMadeAgain(t *testing.T) {
	for halts, want := range map[int]error{0: nil, 1: nil, 9: nil, 100: store.ErrRepeat} {
		backend := memory.New()
		table := storetest.Over(t, backend)
		if err := table.Commit(t.Context(), store.Put(key("a"), thing{Name: "x"}), store.Put(key("b"), thing{Name: "y"})); err != nil {
			t.Fatal(err)
		}
		backend.Tear(1, func(context.Context) error {
			if halts--; halts >= 0 {
				return store.ErrRepeat
			}
			return nil
		})
		var a, b thing
		err := table.Load(t.Context(), store.Want(key("a"), &a), store.Want(key("b"), &b))
		if !errors.Is(err, want) || fault.Is(err, fault.Throttled) != (want != nil) {
			t.Errorf("answered %v, want %v", err, want)
		}
		if err == nil && (a.Name != "x" || b.Name != "y") {
			t.Errorf("read %+v and %+v", a, b)
		}
	}
}

func TestMemoryRefusesAChangeThatKeepsTheVersion(t *testing.T) {
	table := storetest.New(t)
	if err := table.Commit(t.Context(), store.Put(key("a"), versioned{"1", 1, "x"})); err != nil {
		t.Fatal(err)
	}
	err := table.Commit(t.Context(), store.Update(key("a"), store.Set(store.At("text"), "y")))
	if err == nil || !strings.Contains(err.Error(), "keeps its version") {
		t.Errorf("answered %v", err)
	}
}
