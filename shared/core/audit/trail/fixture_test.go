package trail_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/audit/proof"
	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

const acme = "0b1e8f1e-7c1d-4a55-9d0c-3f0f4c6f2a11"

// rootKey is a root key that is never rotated.
type rootKey [seal.KeyBytes]byte

func (k *rootKey) Root(context.Context) ([]byte, error) { return k[:], nil }

// fixture is a table with the stream of its changes, and a Trail over the table.
type fixture struct {
	testing.TB
	items    *memory.Backend
	table    *store.Table
	key      *rootKey
	now      time.Time
	stream   []store.StreamRecord // the changes since the last call of takeEvents
	recorded int                  // the number of records that were committed
	*trail.Trail
}

func newFixture(t testing.TB) *fixture {
	fx := &fixture{TB: t, items: memory.New(), key: &rootKey{1}, now: storetest.Epoch}
	fx.table = storetest.NewWithBackend(t, fx.items, storetest.Clock(fx.clock))
	fx.Trail = fx.withBackend(fx.items)
	fx.items.OnChange(func(r store.StreamRecord) { fx.stream = append(fx.stream, r) })
	return fx
}

func (fx *fixture) clock() time.Time { return fx.now }

// withBackend returns a Trail over another backend of the table.
func (fx *fixture) withBackend(b store.Backend) *trail.Trail {
	return trail.Open(installation.Parts{
		Table: storetest.NewWithBackend(fx, b, storetest.Clock(fx.clock)), Key: fx.key, Now: fx.clock,
		Log: slog.New(slog.DiscardHandler),
	})
}

// change describes the record of one request.
type change struct {
	age     time.Duration
	action  audit.Action
	actor   string
	email   string
	failure bool
}

// record commits changes as requests do, and returns all entries that are not chained yet.
func (fx *fixture) record(changes ...change) (out []audit.Entry) {
	fx.Helper()
	fx.commit(changes...)
	found, err := audit.ListPending(fx.Context(), fx.table, acme)
	if err != nil {
		fx.Fatal(err)
	}
	return found
}

// commit commits changes as requests do, and returns the positions of their records.
func (fx *fixture) commit(changes ...change) (positions []string) {
	fx.Helper()
	for _, c := range changes {
		fx.recorded++
		r := &audit.Request{
			AccountID: acme, Action: c.action, Actor: audit.Actor{Sub: c.actor, Type: "service"},
			// The IDs are different, and not in the order of the records.
			RequestID: fmt.Sprintf("%08d-0000", fx.recorded*7919%1_000_000), Time: fx.now.Add(-c.age),
		}
		if c.email != "" {
			r.Actor.Email = &c.email
		}
		ctx := audit.WithRequest(fx.Context(), r)
		write := audit.Record(ctx, audit.Resource{Type: "key-bucket", ID: "bckt_1"})
		if c.failure {
			write = audit.RecordFailure(ctx, "no")
		}
		if err := fx.table.Commit(fx.Context(), write); err != nil {
			fx.Fatal(err)
		}
		positions = append(positions, trail.Position(audit.Entry{Timestamp: audit.Timestamp(r.Time), RequestID: r.RequestID}))
	}
	return positions
}

// takeEvents returns the stream's records since the last call.
func (fx *fixture) takeEvents() []store.StreamRecord {
	out := fx.stream
	fx.stream = nil
	return out
}

// chain chains all new records.
func (fx *fixture) chain() {
	fx.Helper()
	if failed := fx.HandleStream(fx.Context(), fx.takeEvents()); failed != nil {
		fx.Fatalf("HandleStream() returns %d failed records, want 0", len(failed))
	}
	fx.takeEvents()
}

// verify checks that the account's chain is unbroken and has the given number of records.
func (fx *fixture) verify(records int64) {
	fx.Helper()
	r, err := fx.Verify(fx.Context(), acme, proof.Commitment{})
	if err != nil {
		fx.Fatal(err)
	}
	if r.Break != "" || r.Records() != records || r.Waiting != 0 {
		fx.Errorf("Verify() = %+v, want %d records, no break and no record that waits", r, records)
	}
}

// randomChange draws a change.
func randomChange(r *rand.Rand, maxAge time.Duration) change {
	c := change{age: time.Duration(r.Int64N(int64(maxAge))), failure: r.IntN(4) == 0}
	c.action = []audit.Action{"key-bucket.create", "consumer.create", "consumer.delete"}[r.IntN(3)]
	c.actor = []string{"akey_1", "akey_2", "akey_3"}[r.IntN(3)]
	if r.IntN(3) == 0 {
		c.email = []string{"a@example.com", "akey_1"}[r.IntN(2)]
	}
	return c
}

var errKilled = errors.New("the process is killed")
