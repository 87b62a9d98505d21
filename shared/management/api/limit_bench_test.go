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

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/management/api"
)

// counting is a store.Backend that counts the items that are read and written.
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

// readingServer returns a server with one operation, which reads an item, and the server's table.
func readingServer(b *testing.B, limited bool, now func() time.Time) (http.Handler, *counting) {
	b.Helper()
	backend := &counting{Backend: memory.New()}
	table := storetest.NewWithBackend(b, backend, storetest.Clock(now))
	parts := installation.Parts{
		Config: config.Config{Limits: limits.Values{limits.Requests.Name: limits.Requests.Max}},
		Table:  table, Log: slog.New(slog.DiscardHandler), IDs: ids.NewSource(storetest.Random(b), now), Now: now,
	}
	if limited {
		parts.Rates = allowance.NewRates(table, now)
	}
	return api.Open(parts, callers{}, []api.Route{
		readThing.HandledBy(func(ctx context.Context, in *thingIn) (*thingOut, error) {
			var exists struct{}
			if err := table.Load(ctx, store.Get(store.KeyPrefix("test-things").Key(in.Name), &exists)); err != nil {
				return nil, err
			}
			return &thingOut{}, nil
		}),
	}), backend
}

// BenchmarkLimitOfAnAccountsRequests compares a server with the limit of an account's requests
// and a server without it. It sends requests to both alternately, at several rates per second of
// a simulated clock. It reports the ratio of the median times, and the additional reads and writes.
func BenchmarkLimitOfAnAccountsRequests(b *testing.B) {
	for _, rate := range []int{1, 2, 10, 100, 1000} {
		b.Run(fmt.Sprintf("%d_a_second", rate), func(b *testing.B) {
			clock := storetest.Epoch
			now := func() time.Time { return clock }
			limited, limitedBackend := readingServer(b, true, now)
			plain, plainBackend := readingServer(b, false, now)
			request := func(h http.Handler) time.Duration {
				r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, thing+"x", http.NoBody)
				r.Header.Set("Authorization", "Bearer "+goodKey)
				w := httptest.NewRecorder()
				start := time.Now()
				h.ServeHTTP(w, r)
				elapsed := time.Since(start)
				if w.Code != http.StatusOK {
					b.Fatalf("response = %d %s, want 200", w.Code, w.Body)
				}
				return elapsed
			}
			var limitedTimes, plainTimes []time.Duration
			for b.Loop() {
				limitedTimes = append(limitedTimes, request(limited))
				plainTimes = append(plainTimes, request(plain))
				clock = clock.Add(time.Second / time.Duration(rate))
			}
			n := float64(b.N)
			slices.Sort(limitedTimes)
			slices.Sort(plainTimes)
			// Compare medians, because a mean would depend on the load of the machine.
			b.ReportMetric(float64(limitedTimes[len(limitedTimes)/2])/float64(plainTimes[len(plainTimes)/2]), "times")
			b.ReportMetric(float64(limitedBackend.reads-plainBackend.reads)/n, "reads/op")
			b.ReportMetric(float64(limitedBackend.writes-plainBackend.writes)/n, "writes/op")
		})
	}
}
