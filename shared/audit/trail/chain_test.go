package trail_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
)

// killer is a table whose user dies at some of its calls: before they have their
// effect, or after.
type killer struct {
	store.Backend
	random *rand.Rand
	often  float64
	// before runs ahead of each transaction, nil for nothing.
	before func()
}

func (k *killer) dies() bool { return k.random.Float64() < k.often }

func (k *killer) Transact(ctx context.Context, token string, writes []store.Write) error {
	if k.before != nil {
		before := k.before
		k.before = nil
		before()
	}
	if k.dies() {
		return errKilled
	}
	if err := k.Backend.Transact(ctx, token, writes); err != nil {
		return err
	}
	if k.dies() {
		return errKilled
	}
	return nil
}

func (k *killer) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if k.dies() {
		return nil, errKilled
	}
	return k.Backend.Read(ctx, keys)
}

// TestEachRecordIsChainedOnce plays the stream with what it may do: tell twice,
// late and in any order, to workers that are killed anywhere, one amid another.
func TestEachRecordIsChainedOnce(t *testing.T) {
	for seed := range uint64(simulations.Runs(30)) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(t)
		var want []audit.Entry
		for range 1 + r.IntN(60) {
			w.record(some(r, time.Hour))
		}
		want, err := audit.New(t.Context(), w.table, acme)
		if err != nil {
			t.Fatal(err)
		}
		told := w.told()
		told = append(told, told[:r.IntN(len(told))]...)
		r.Shuffle(len(told), func(i, j int) { told[i], told[j] = told[j], told[i] })
		var failed []store.StreamRecord
		for len(told) > 0 {
			n := 1 + r.IntN(len(told))
			batch := append(failed, told[:n]...)
			told, failed = told[n:], nil
			k := &killer{Backend: w.items, random: r, often: 0.2}
			if r.IntN(2) == 0 { // another worker has the same, and does it amid this one
				k.before = func() { w.HandleStream(t.Context(), batch) }
			}
			for _, i := range w.over(k).HandleStream(t.Context(), batch) {
				failed = append(failed, batch[i])
			}
		}
		if again := w.HandleStream(t.Context(), failed); again != nil {
			t.Fatalf("seed %d: %d records fail", seed, len(again))
		}
		w.verify(int64(len(want)))
		for _, after := range [][]store.StreamRecord{failed, w.told()} { // what is told later changes nothing
			before := w.items.Items()
			w.HandleStream(t.Context(), after)
			if diff := cmp.Diff(len(before), len(w.items.Items())); diff != "" {
				t.Errorf("seed %d: what was told before changes the table: %s", seed, diff)
			}
		}
		w.verify(int64(len(want)))
		w.lists(t, fmt.Sprint("seed ", seed), want, trail.Filter{From: w.now.Add(-24 * time.Hour), To: w.now.Add(time.Hour)}, store.Page{Limit: 100})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// TestWorkersAtOnceMakeOneChain has many workers chain the same and other records.
func TestWorkersAtOnceMakeOneChain(t *testing.T) {
	w := newWorld(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		w.record(some(r, time.Minute))
	}
	told := w.told()
	var all sync.WaitGroup
	for i := range 8 {
		mine := told[i*20 : i*20+60]
		all.Go(func() {
			for left := mine; len(left) > 0; { // as the stream tells again what failed
				var next []store.StreamRecord
				for _, i := range w.HandleStream(t.Context(), left) {
					next = append(next, left[i])
				}
				left = next
			}
		})
	}
	all.Wait()
	w.verify(200)
}

// TestWhatTheStreamNeverTellsIsChainedAnHourLater: a record that failed too often
// stays where it was written, and the account's next change has it found.
func TestWhatTheStreamNeverTellsIsChainedAnHourLater(t *testing.T) {
	w := newWorld(t)
	w.record(change{action: "a.create"}, change{action: "a.create"})
	w.told() // and nobody hears it
	w.now = w.now.Add(30 * time.Minute)
	w.record(change{action: "a.create"})
	w.chain()
	found, err := audit.New(t.Context(), w.table, acme)
	if err != nil || len(found) != 2 {
		t.Fatalf("%d records are new, %v", len(found), err)
	}
	w.now = w.now.Add(61 * time.Minute)
	w.record(change{action: "a.create"})
	w.chain()
	w.verify(4)
}

// TestRemovedBeforeItIsChainedIsInTheChain: what is chained is what was written,
// and not what somebody has made of it since.
func TestRemovedBeforeItIsChainedIsInTheChain(t *testing.T) {
	w := newWorld(t)
	removed := w.record(change{action: "a.create", actor: "removed"})[0]
	told := w.told()
	altered := w.record(change{action: "a.create", actor: "altered"})
	told = append(told, w.told()...)
	i := slices.IndexFunc(altered, func(e audit.Entry) bool { return e.Actor.Sub == "altered" })
	if err := w.table.Commit(t.Context(), store.Delete(audit.WaitingKey(acme, removed)),
		store.Update(audit.WaitingKey(acme, altered[i]), store.Set(store.At("actor", "sub"), "another"))); err != nil {
		t.Fatal(err)
	}
	if failed := w.HandleStream(t.Context(), append(told, w.told()...)); failed != nil {
		t.Fatal(failed)
	}
	w.verify(2)
	found, err := w.List(t.Context(), acme, trail.Filter{From: w.now.Add(-time.Hour), To: w.now.Add(time.Hour)}, store.Page{Limit: 10})
	if err != nil || found.Total != 2 || found.Entries[0].Actor.Sub != "altered" && found.Entries[1].Actor.Sub != "altered" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestEntriesOfANewerReleaseAreChainedWhole, by a release that knows less of them: during an update either may be told.
func TestEntriesOfANewerReleaseAreChainedWhole(t *testing.T) {
	w := newWorld(t)
	e := w.record(change{action: "a.create", actor: "someone"})[0]
	key := audit.WaitingKey(acme, e)
	if err := w.table.Commit(t.Context(), store.Update(key, store.Set(store.At("later"), "more"), store.Set(store.At("actor", "later"), 7))); err != nil {
		t.Fatal(err)
	}
	told := w.told()
	told[0].New = told[1].New // as if it had been so from the beginning
	if failed := w.HandleStream(t.Context(), told[:1]); failed != nil {
		t.Fatal(failed)
	}
	w.verify(1)
	var l trail.Link
	if err := w.table.Get(t.Context(), audit.ChainedKey(acme, e), &l); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Later string
		Actor struct {
			Sub   string
			Later int
		}
		TTL any
	}
	if err := json.Unmarshal([]byte(l.Entry), &got); err != nil || got.Later != "more" || got.Actor.Later != 7 || got.Actor.Sub != "someone" || got.TTL != nil {
		t.Errorf("it is chained as %s, %v", l.Entry, err)
	}
	found, err := w.List(t.Context(), acme, trail.Filter{From: w.now.Add(-time.Hour), To: w.now.Add(time.Hour)}, store.Page{Limit: 10})
	if err != nil || len(found.Entries) != 1 || found.Entries[0].Actor.Sub != "someone" {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestWhatIsNoRecordHoldsUpNothing: the stream brings what anybody has put there.
func TestWhatIsNoRecordHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	w.record(change{action: "a.create"})
	type junk struct {
		Timestamp string `dynamodbav:"timestamp"`
		Actor     string `dynamodbav:"actor,omitempty"`
	}
	for i, j := range []junk{{"x", ""}, {"", "no map"}, {audit.Timestamp(w.now), ""}} {
		if err := w.table.Commit(t.Context(), store.Put(store.In(audit.Waiting(acme, i), "junk"), j)); err != nil {
			t.Fatal(err)
		}
	}
	if failed := w.HandleStream(t.Context(), w.told()); failed != nil {
		t.Fatal(failed)
	}
	r, err := w.Verify(t.Context(), acme, proof.Commitment{})
	if err != nil || r.Break != "" || r.Records() != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestEachEndIsWitnessedOutsideTheTable, in a line that says that nothing is wrong.
func TestEachEndIsWitnessedOutsideTheTable(t *testing.T) {
	w := newWorld(t)
	var lines bytes.Buffer
	chain := trail.Open(installation.Parts{Table: w.table, Key: w.key, Now: w.clock, Log: slog.New(slog.NewJSONHandler(&lines, nil))})
	for seq := 1; seq <= 2; seq++ {
		lines.Reset()
		w.record(change{action: "key-bucket.create", actor: "akey_0123456789abcdef01234567"})
		if failed := chain.HandleStream(t.Context(), w.told()); failed != nil {
			t.Fatal(failed)
		}
		var line struct {
			Level, Msg, Hash, Status string
			Seq                      int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v in %s", err, lines.String())
		}
		if line.Msg != "audit records chained" || line.Level != "INFO" || line.Status != "success" || line.Seq != seq || line.Hash == "" {
			t.Errorf("the line says %s", lines.String())
		}
	}
}

// TestChangesPayNothingForTheChain: the transaction of a change has the one write
// that it had, and never meets the one that chains.
func TestChangesPayNothingForTheChain(t *testing.T) {
	w := newWorld(t)
	var meter store.Meter
	ctx := store.WithMeter(t.Context(), &meter)
	w.record(change{action: "key-bucket.create", actor: "akey_0123456789abcdef01234567"})
	told := w.told()
	if failed := w.HandleStream(ctx, told); failed != nil {
		t.Fatal(failed)
	}
	alone := meter.Usage()
	for range 45 {
		w.record(change{action: "key-bucket.create", actor: "akey_0123456789abcdef01234567"})
	}
	meter = store.Meter{}
	if failed := w.HandleStream(ctx, w.told()[0:]); failed != nil {
		t.Fatal(failed)
	}
	together := meter.Usage()
	t.Logf("one alone: %+v; 45 at once: %+v", alone, together)
	if alone.WriteUnits > 16 || together.WriteUnits > 45*4+12 || together.Commits > 1 {
		t.Errorf("one alone costs %+v, 45 at once %+v", alone, together)
	}
}
