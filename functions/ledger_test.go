package functions_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
)

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
// or the first answers for the second) and one transaction; of an operation with
// a limit, one more counts the request, the first of its second here (at 100 a second
// it is one for 25 requests and more). Larger batches and buckets are in shared/keys/testdata/ledger.txt.
func TestLedger(t *testing.T) {
	p := newPopulated(t)
	for _, g := range groups() {
		var out strings.Builder
		fmt.Fprintf(&out, "%-42s %6s %8s %8s %11s %12s\n", "operation", "reads", "queries", "commits", "read units", "write units")
		for _, d := range g.Declarations() {
			synctest.Test(t, func(t *testing.T) {
				out.WriteString(ledgerLine(t, p, d))
			})
		}
		golden.Equal(t, g.Name+"/testdata/ledger.txt", out.String())
	}
}

func ledgerLine(t *testing.T, p populated, d api.Declaration) string {
	t.Helper()
	w := p.Copy(t)
	log := &units{}
	w.Parts.Log = slog.New(log)
	w.Asides()
	w.Call(p.key, http.MethodGet, "/v1/who-am-i", "").Want(http.StatusOK) // the caller is known from now on
	asker := p.asker(w, d)
	w.Uses.Clear()
	log.read, log.write = 0, 0
	path, body := target(t, d, p.book.Request(d), p.names)
	w.Call(asker, d.Method, path, body).Want(d.Status)
	u := w.Uses
	most := 1
	if hasLimit(d) {
		most++
	}
	if d.Mutates() && u.Commits > most {
		t.Errorf("%s commits %d times", d.ID, u.Commits)
	}
	return fmt.Sprintf("%-42s %6d %8d %8d %11.1f %12.1f\n", d.ID, u.Reads, u.Queries, u.Commits, log.read, log.write)
}
