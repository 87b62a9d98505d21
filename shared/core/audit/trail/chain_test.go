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

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// killingBackend is a table whose worker dies at some commits, before or after the commit has its effect, and at some
// calls of Read.
type killingBackend struct {
	store.Backend
	random      *rand.Rand
	probability float64
	// before runs before the first transaction. It can be nil.
	before func()
}

func (k *killingBackend) kills() bool { return k.random.Float64() < k.probability }

func (k *killingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if k.before != nil {
		before := k.before
		k.before = nil
		before()
	}
	if k.kills() {
		return errKilled
	}
	if err := k.Backend.Transact(ctx, token, writes); err != nil {
		return err
	}
	if k.kills() {
		return errKilled
	}
	return nil
}

func (k *killingBackend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if k.kills() {
		return nil, errKilled
	}
	return k.Backend.Read(ctx, keys)
}

// TestEachRecordIsChainedOnce simulates a stream that delivers records twice, late and in any order,
// to concurrent workers that are killed at any point. It checks that each record is in the chain once.
func TestEachRecordIsChainedOnce(t *testing.T) {
	for seed := range uint64(simulations.Runs(15)) {
		r := rand.New(rand.NewPCG(seed, 1))
		fx := newFixture(t)
		var want []audit.Entry
		for range 1 + r.IntN(60) {
			fx.record(randomChange(r, time.Hour))
		}
		want, err := audit.ListPending(t.Context(), fx.table, acme)
		if err != nil {
			t.Fatal(err)
		}
		events := fx.takeEvents()
		events = append(events, events[:r.IntN(len(events))]...)
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		var failed []store.StreamRecord
		for len(events) > 0 {
			n := 1 + r.IntN(len(events))
			batch := append(failed, events[:n]...)
			events, failed = events[n:], nil
			k := &killingBackend{Backend: fx.items, random: r, probability: 0.2}
			if r.IntN(2) == 0 { // another worker chains the same records in the middle of this worker's work
				k.before = func() { fx.HandleStream(t.Context(), batch) }
			}
			for _, i := range fx.withBackend(k).HandleStream(t.Context(), batch) {
				failed = append(failed, batch[i])
			}
		}
		if stillFailed := fx.HandleStream(t.Context(), failed); stillFailed != nil {
			t.Fatalf("seed %d: HandleStream() without failures returns %d failed records, want 0", seed, len(stillFailed))
		}
		fx.verify(int64(len(want)))
		// Neither a late delivery nor the changes that the chaining itself has made add items.
		for _, after := range [][]store.StreamRecord{failed, fx.takeEvents()} {
			before := fx.items.Items()
			fx.HandleStream(t.Context(), after)
			if n := len(fx.items.Items()); n != len(before) {
				t.Errorf("seed %d: items after HandleStream() of delivered records = %d, want the %d from before",
					seed, n, len(before))
			}
		}
		fx.verify(int64(len(want)))
		fx.checkList(t, fmt.Sprint("seed ", seed), want,
			trail.Filter{From: fx.now.Add(-24 * time.Hour), To: fx.now.Add(time.Hour)}, store.Page{Limit: 100})
		if t.Failed() {
			t.Fatalf("seed %d: a check failed, want none", seed)
		}
	}
}

// TestConcurrentWorkersMakeOneChain lets many workers chain records at the same time, some of
// them the same records. It checks that the chain is unbroken and has each record once.
func TestConcurrentWorkersMakeOneChain(t *testing.T) {
	fx := newFixture(t)
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		fx.record(randomChange(r, time.Minute))
	}
	events := fx.takeEvents()
	var wg sync.WaitGroup
	for i := range 8 {
		batch := events[i*20 : i*20+60]
		wg.Go(func() {
			for remaining := batch; len(remaining) > 0; { // the stream delivers failed records again
				var next []store.StreamRecord
				for _, i := range fx.HandleStream(t.Context(), remaining) {
					next = append(next, remaining[i])
				}
				remaining = next
			}
		})
	}
	wg.Wait()
	fx.verify(200)
}

// TestUndeliveredRecordIsChainedLater checks that a record that the stream no longer delivers stays pending,
// and that the account's first change after more than an hour triggers a search that chains the record.
func TestUndeliveredRecordIsChainedLater(t *testing.T) {
	fx := newFixture(t)
	fx.record(change{action: "a.create"}, change{action: "a.create"})
	fx.takeEvents() // the stream never delivers these records
	fx.now = fx.now.Add(30 * time.Minute)
	fx.record(change{action: "a.create"})
	fx.chain()
	found, err := audit.ListPending(t.Context(), fx.table, acme)
	if err != nil || len(found) != 2 {
		t.Fatalf("ListPending() = %d records, %v, want 2", len(found), err)
	}
	fx.now = fx.now.Add(61 * time.Minute)
	fx.record(change{action: "a.create"})
	fx.chain()
	fx.verify(4)
}

// TestRemovedRecordIsStillChained removes one pending record and alters another. It
// checks that the chain has both, and the altered record as it was written.
func TestRemovedRecordIsStillChained(t *testing.T) {
	fx := newFixture(t)
	removed := fx.record(change{action: "a.create", actor: "removed"})[0]
	events := fx.takeEvents()
	altered := fx.record(change{action: "a.create", actor: "altered"})
	events = append(events, fx.takeEvents()...)
	i := slices.IndexFunc(altered, func(e audit.Entry) bool { return e.Actor.Sub == "altered" })
	if err := fx.table.Commit(t.Context(), store.Delete(audit.PendingKey(acme, removed)),
		store.Update(audit.PendingKey(acme, altered[i]), store.Set(store.At("actor", "sub"), "another"))); err != nil {
		t.Fatal(err)
	}
	if failed := fx.HandleStream(t.Context(), append(events, fx.takeEvents()...)); failed != nil {
		t.Fatalf("HandleStream() returns the failed records %v, want none", failed)
	}
	fx.verify(2)
	found, err := fx.List(t.Context(), acme, trail.Filter{From: fx.now.Add(-time.Hour), To: fx.now.Add(time.Hour)},
		store.Page{Limit: 10})
	if err != nil || found.Total != 2 || found.Entries[0].Actor.Sub != "altered" &&
		found.Entries[1].Actor.Sub != "altered" {
		t.Errorf("List() = %+v, %v, want 2 records, one of them with the actor \"altered\"", found, err)
	}
}

// TestUnknownAttributesAreChained chains records of a newer release with a release that
// knows fewer fields. During an update, the stream may deliver a record to either release.
func TestUnknownAttributesAreChained(t *testing.T) {
	fx := newFixture(t)
	e := fx.record(change{action: "a.create", actor: "someone"})[0]
	key := audit.PendingKey(acme, e)
	if err := fx.table.Commit(t.Context(), store.Update(key, store.Set(store.At("later"), "more"),
		store.Set(store.At("actor", "later"), 7))); err != nil {
		t.Fatal(err)
	}
	events := fx.takeEvents()
	events[0].New = events[1].New // as if the record had been created with these attributes
	if failed := fx.HandleStream(t.Context(), events[:1]); failed != nil {
		t.Fatalf("HandleStream() returns the failed records %v, want none", failed)
	}
	fx.verify(1)
	var l trail.Link
	if err := fx.table.Get(t.Context(), audit.ChainedKey(acme, e), &l); err != nil {
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
	if err := json.Unmarshal([]byte(l.Entry), &got); err != nil {
		t.Errorf("chained entry %s: %v, want JSON", l.Entry, err)
	}
	if got.Later != "more" || got.Actor.Later != 7 {
		t.Errorf("chained entry %s: unknown attributes = %q, %d, want \"more\", 7", l.Entry, got.Later, got.Actor.Later)
	}
	if got.Actor.Sub != "someone" || got.TTL != nil {
		t.Errorf("chained entry %s: actor %q, TTL %v, want \"someone\", nil", l.Entry, got.Actor.Sub, got.TTL)
	}
	found, err := fx.List(t.Context(), acme, trail.Filter{From: fx.now.Add(-time.Hour), To: fx.now.Add(time.Hour)},
		store.Page{Limit: 10})
	if err != nil || len(found.Entries) != 1 || found.Entries[0].Actor.Sub != "someone" {
		t.Errorf("List() = %+v, %v, want one record with the actor \"someone\"", found, err)
	}
}

// TestInvalidItemDoesNotBlockRecords checks that an invalid item in the stream does not block other records.
func TestInvalidItemDoesNotBlockRecords(t *testing.T) {
	fx := newFixture(t)
	fx.record(change{action: "a.create"})
	type invalidItem struct {
		Timestamp string `dynamodbav:"timestamp"`
		Actor     string `dynamodbav:"actor,omitempty"`
	}
	for i, item := range []invalidItem{{"x", ""}, {"", "no map"}, {audit.Timestamp(fx.now), ""}} {
		if err := fx.table.Commit(t.Context(), store.Put(store.KeyIn(audit.PendingPartition(acme, i), "invalid"),
			item)); err != nil {
			t.Fatal(err)
		}
	}
	if failed := fx.HandleStream(t.Context(), fx.takeEvents()); failed != nil {
		t.Fatalf("HandleStream() returns the failed records %v, want none", failed)
	}
	r, err := fx.Verify(t.Context(), acme, proof.Commitment{})
	if err != nil || r.Break != "" || r.Records() != 1 {
		t.Errorf("Verify() = %+v, %v, want the one valid record and no break", r, err)
	}
}

// TestEndOfChainIsLogged checks the log line with the end of the chain. The line must not look like a warning.
func TestEndOfChainIsLogged(t *testing.T) {
	fx := newFixture(t)
	var lines bytes.Buffer
	chain := trail.Open(installation.Parts{
		Table: fx.table, Key: fx.key, Now: fx.clock,
		Log: slog.New(slog.NewJSONHandler(&lines, nil)),
	})
	for seq := 1; seq <= 2; seq++ {
		lines.Reset()
		fx.record(change{action: "key-bucket.create", actor: "akey_0123456789abcdef01234567"})
		if failed := chain.HandleStream(t.Context(), fx.takeEvents()); failed != nil {
			t.Fatalf("HandleStream() returns the failed records %v, want none", failed)
		}
		var line struct {
			Level, Msg, Hash, Status string
			Seq                      int
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("log line %s: %v, want JSON", lines.String(), err)
		}
		if line.Msg != "audit records chained" || line.Level != "INFO" || line.Status != "success" {
			t.Errorf("log line %s: want \"audit records chained\" with level INFO and status success", lines.String())
		}
		if line.Seq != seq || line.Hash == "" {
			t.Errorf("log line %s: want seq %d and a hash", lines.String(), seq)
		}
	}
}

// TestChainingCost checks the maximum cost of chaining, in write units, for
// one record and for 45 records. It checks that one commit chains 45 records.
func TestChainingCost(t *testing.T) {
	fx := newFixture(t)
	var meter store.Meter
	ctx := store.WithMeter(t.Context(), &meter)
	fx.record(change{action: "key-bucket.create", actor: "akey_0123456789abcdef01234567"})
	events := fx.takeEvents()
	if failed := fx.HandleStream(ctx, events); failed != nil {
		t.Fatalf("HandleStream() returns the failed records %v, want none", failed)
	}
	single := meter.Usage()
	for range 45 {
		fx.record(change{action: "key-bucket.create", actor: "akey_0123456789abcdef01234567"})
	}
	meter = store.Meter{}
	if failed := fx.HandleStream(ctx, fx.takeEvents()); failed != nil {
		t.Fatalf("HandleStream() returns the failed records %v, want none", failed)
	}
	batch := meter.Usage()
	t.Logf("one alone: %+v; 45 at once: %+v", single, batch)
	if single.WriteUnits > 16 {
		t.Errorf("HandleStream() of one record costs %+v, want at most 16 write units", single)
	}
	if batch.WriteUnits > 45*4+12 {
		t.Errorf("HandleStream() of 45 records costs %+v, want at most %d write units", batch, 45*4+12)
	}
	if batch.Commits > 1 {
		t.Errorf("HandleStream() of 45 records makes %d commits, want 1", batch.Commits)
	}
}
