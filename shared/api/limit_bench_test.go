package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// counting counts what is asked of a table.
type counting struct {
	store.Backend
	reads, writes int
}

// Read implements store.Backend.
func (c *counting) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	c.reads += len(keys)
	return c.Backend.Read(ctx, keys)
}

// Transact implements store.Backend.
func (c *counting) Transact(ctx context.Context, token string, writes []store.Write) error {
	c.writes += len(writes)
	return c.Backend.Transact(ctx, token, writes)
}

// reading is a server of one operation, which reads an item, over a table of its own.
func reading(b *testing.B, limited bool, now func() time.Time) (http.Handler, *counting) {
	b.Helper()
	backend := &counting{Backend: memory.New()}
	table := storetest.Over(b, backend, storetest.Clock(now))
	parts := installation.Parts{
		Config: config.Config{Limits: limits.Values{limits.Requests.Name: limits.Requests.Most}},
		Table:  table, Log: slog.New(slog.DiscardHandler), IDs: ids.NewSource(storetest.Random(b), now), Now: now,
	}
	if limited {
		parts.Rates = allowance.NewRates(table, now)
	}
	return api.Open(parts, callers{}, []api.Route{
		readThing.To(func(ctx context.Context, in *thingIn) (*thingOut, error) {
			var there struct{}
			if err := table.Load(ctx, store.Want(store.Space("test-things").Key(in.Name), &there)); err != nil {
				return nil, err
			}
			return &thingOut{}, nil
		}),
	}), backend
}

// BenchmarkLimitOfAnAccountsRequests asks the same of a server with the limit of an account's requests and of one without, in
// turns, an account so many times in each second of a clock of its own: how much longer a request takes at the median, and
// what it reads and writes beside.
func BenchmarkLimitOfAnAccountsRequests(b *testing.B) {
	for _, rate := range []int{1, 2, 10, 100, 1000} {
		b.Run(fmt.Sprintf("%d_a_second", rate), func(b *testing.B) {
			at := storetest.Epoch
			now := func() time.Time { return at }
			limited, asked := reading(b, true, now)
			plain, alone := reading(b, false, now)
			request := func(h http.Handler) time.Duration {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, thing+"x", http.NoBody)
				r.Header.Set("Authorization", "Bearer "+goodKey)
				w := httptest.NewRecorder()
				began := time.Now()
				h.ServeHTTP(w, r)
				took := time.Since(began)
				if w.Code != http.StatusOK {
					b.Fatalf("answered %d %s", w.Code, w.Body)
				}
				return took
			}
			var with, without []time.Duration
			for b.Loop() {
				with = append(with, request(limited))
				without = append(without, request(plain))
				at = at.Add(time.Second / time.Duration(rate))
			}
			n := float64(b.N)
			slices.Sort(with)
			slices.Sort(without)
			b.ReportMetric(float64(with[len(with)/2])/float64(without[len(without)/2]), "times") // a mean tells of the machine
			b.ReportMetric(float64(asked.reads-alone.reads)/n, "reads/op")
			b.ReportMetric(float64(asked.writes-alone.writes)/n, "writes/op")
		})
	}
}
