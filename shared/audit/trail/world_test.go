package trail_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/audit/proof"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

const acme = "0b1e8f1e-7c1d-4a55-9d0c-3f0f4c6f2a11"

// rootKey is a root key that stands still.
type rootKey [seal.KeyBytes]byte

func (k *rootKey) Root(context.Context) ([]byte, error) { return k[:], nil }

// world is a table with the stream of its changes.
type world struct {
	testing.TB
	items  *memory.Backend
	table  *store.Table
	key    *rootKey
	now    time.Time
	stream []store.StreamRecord
	made   int
	*trail.Trail
}

func newWorld(t testing.TB) *world {
	w := &world{TB: t, items: memory.New(), key: &rootKey{1}, now: storetest.Epoch}
	w.table = storetest.Over(t, w.items, storetest.Clock(w.clock))
	w.Trail = w.over(w.items)
	w.items.OnChange(func(r store.StreamRecord) { w.stream = append(w.stream, r) })
	return w
}

func (w *world) clock() time.Time { return w.now }

// over makes a Trail over another view of the table.
func (w *world) over(b store.Backend) *trail.Trail {
	return trail.Open(installation.Parts{
		Table: storetest.Over(w, b, storetest.Clock(w.clock)), Key: w.key, Now: w.clock, Log: slog.New(slog.DiscardHandler),
	})
}

// change is what one request records.
type change struct {
	ago     time.Duration
	action  audit.Action
	actor   string
	email   string
	failure bool
}

// record commits changes as requests do, and gives the entries of all that are not chained yet.
func (w *world) record(changes ...change) (out []audit.Entry) {
	w.Helper()
	w.commit(changes...)
	found, err := audit.New(w.Context(), w.table, acme)
	if err != nil {
		w.Fatal(err)
	}
	return found
}

// commit commits changes as requests do, and gives the positions of their records.
func (w *world) commit(changes ...change) (positions []string) {
	w.Helper()
	for _, c := range changes {
		w.made++
		r := &audit.Request{
			AccountID: acme, Action: c.action, Actor: audit.Actor{Sub: c.actor, Type: "service"},
			RequestID: fmt.Sprintf("%08d-0000", w.made*7919%1_000_000), Time: w.now.Add(-c.ago),
		}
		if c.email != "" {
			r.Actor.Email = &c.email
		}
		ctx := audit.With(w.Context(), r)
		write := audit.Record(ctx, audit.Resource{Type: "key-bucket", ID: "bckt_1"})
		if c.failure {
			write = audit.Refused(ctx, "no")
		}
		if err := w.table.Commit(w.Context(), write); err != nil {
			w.Fatal(err)
		}
		positions = append(positions, trail.Position(audit.Entry{Timestamp: audit.Timestamp(r.Time), RequestID: r.RequestID}))
	}
	return positions
}

// told is what the stream has told of since the last call.
func (w *world) told() []store.StreamRecord {
	out := w.stream
	w.stream = nil
	return out
}

// chain has all that is new chained.
func (w *world) chain() {
	w.Helper()
	if failed := w.HandleStream(w.Context(), w.told()); failed != nil {
		w.Fatalf("%d records failed", len(failed))
	}
	w.told()
}

// verify holds the account's chain to be whole, with so many records.
func (w *world) verify(records int64) {
	w.Helper()
	r, err := w.Verify(w.Context(), acme, proof.Commitment{})
	if err != nil {
		w.Fatal(err)
	}
	if r.Break != "" || r.Records() != records || r.Waiting != 0 {
		w.Errorf("verified as %+v, want %d records", r, records)
	}
}

// some draws a change.
func some(r *rand.Rand, within time.Duration) change {
	c := change{ago: time.Duration(r.Int64N(int64(within))), failure: r.IntN(4) == 0}
	c.action = []audit.Action{"key-bucket.create", "consumer.create", "consumer.delete"}[r.IntN(3)]
	c.actor = []string{"akey_1", "akey_2", "akey_3"}[r.IntN(3)]
	if r.IntN(3) == 0 {
		c.email = []string{"a@example.com", "akey_1"}[r.IntN(2)]
	}
	return c
}

var errKilled = errors.New("the process is killed")
