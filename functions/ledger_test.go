package functions_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// capacityLog is a log handler that stores the capacity units in the log line of the last request.
type capacityLog struct {
	slog.Handler
	read, write float64
}

// Enabled implements slog.Handler.
func (*capacityLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l *capacityLog) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "readUnits":
			l.read = a.Value.Float64()
		case "writeUnits":
			l.write = a.Value.Float64()
		}
		return true
	})
	return nil
}

// TestLedger compares the table calls of each operation with a golden file: the calls by kind, and the capacity units
// that DynamoDB bills (reads at 4 KB, transactions twice). The process has handled an earlier request, so it has cached
// the caller. A change must need at most one transaction. An operation with a rate limit needs another one to count the
// request: here the request is the first of its second, but at 100 requests per second there is one such call for 25 or
// more requests. shared/resource/keys/testdata/ledger.txt has larger batches and buckets.
func TestLedger(t *testing.T) {
	p := newPopulatedFixture(t)
	for _, g := range groups() {
		var out strings.Builder
		fmt.Fprintf(&out, "%-42s %6s %8s %8s %11s %12s\n", "operation", "reads", "queries", "commits",
			"read units", "write units")
		for _, d := range g.Declarations() {
			synctest.Test(t, func(t *testing.T) {
				out.WriteString(ledgerLine(t, p, d))
			})
		}
		golden.Equal(t, g.Name+"/testdata/ledger.txt", out.String())
	}
}

func ledgerLine(t *testing.T, p populatedFixture, d api.Declaration) string {
	t.Helper()
	fx := p.Copy(t)
	log := &capacityLog{}
	fx.Parts.Log = slog.New(log)
	fx.EnableBackground()
	fx.Call(p.key, http.MethodGet, "/v1/who-am-i", "").Want(http.StatusOK) // this request caches the caller
	key := p.callerKey(fx, d)
	fx.Uses.Clear()
	log.read, log.write = 0, 0
	path, body := requestTarget(t, d, p.sampleSet.Request(d), p.values)
	fx.Call(key, d.Method, path, body).Want(d.Status)
	u := fx.Uses
	maxCommits := 1
	if hasRateLimit(d) {
		maxCommits++
	}
	if d.Mutates() && u.Commits > maxCommits {
		t.Errorf("commits of %s = %d, want at most %d", d.ID, u.Commits, maxCommits)
	}
	return fmt.Sprintf("%-42s %6d %8d %8d %11.1f %12.1f\n", d.ID, u.Reads, u.Queries, u.Commits, log.read, log.write)
}
