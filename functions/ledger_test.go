package functions_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/store"
)

// counted is a backend that counts the calls that reach it.
type counted struct {
	store.Backend
	reads, queries, commits atomic.Int64
}

// Read implements store.Backend.
func (c *counted) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.reads.Add(1)
	return c.Backend.Read(ctx, keys)
}

// Query implements store.Backend.
func (c *counted) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	c.queries.Add(1)
	return c.Backend.Query(ctx, q)
}

// Transact implements store.Backend.
func (c *counted) Transact(ctx context.Context, token string, writes []store.Write) error {
	c.commits.Add(1)
	return c.Backend.Transact(ctx, token, writes)
}

// units is a log handler that keeps the capacity which the last request's line
// tells.
type units struct {
	slog.Handler
	read, write float64
}

// Enabled implements slog.Handler.
func (*units) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (u *units) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "readUnits":
			u.read = a.Value.Float64()
		case "writeUnits":
			u.write = a.Value.Float64()
		}
		return true
	})
	return nil
}

// TestLedger shows what each operation asks of the table, of a process that has
// answered before: calls by kind, and capacity units as DynamoDB bills them
// (reads at 4 KB, transactions twice). No change takes more than one round trip
// of reading (calls of one row's reads and queries are made at the same time,
// or the first answers for the second) and one transaction. Larger batches and
// buckets are in shared/keys/testdata/ledger.txt.
func TestLedger(t *testing.T) {
	var out strings.Builder
	fmt.Fprintf(&out, "%-42s %6s %8s %8s %11s %12s\n", "operation", "reads", "queries", "commits", "read units", "write units")
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			synctest.Test(t, func(t *testing.T) {
				out.WriteString(ledgerLine(t, d))
			})
		}
	}
	golden.Equal(t, "testdata/ledger.txt", out.String())
}

func ledgerLine(t *testing.T, d api.Declaration) string {
	w := newWorld(t)
	key := w.account("acme")
	n := populate(w, key, "acme").withDefaults()
	log := &units{}
	w.parts.Log = slog.New(log)
	w.restart()
	w.ask(key, http.MethodGet, "/v1/who-am-i", "") // the caller is known from now on
	c := w.counts
	reads, queries, commits := c.reads.Load(), c.queries.Load(), c.commits.Load()
	method, path, body := request(t, d, n)
	status, answer := w.send(key, method, path, body)
	if status >= http.StatusBadRequest {
		t.Fatalf("%s: %s", d.ID, answer)
	}
	if d.Mutates() && c.commits.Load()-commits > 1 {
		t.Errorf("%s commits %d times", d.ID, c.commits.Load()-commits)
	}
	return fmt.Sprintf("%-42s %6d %8d %8d %11.1f %12.1f\n", d.ID,
		c.reads.Load()-reads, c.queries.Load()-queries, c.commits.Load()-commits, log.read, log.write)
}
