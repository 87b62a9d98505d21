package metering

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/meter"
)

// Counter is the allowance that counts a meter of a subscription in a period, for all who ask: a gateway
// that takes of it, and who reads what of it is used. A new period has a counter of its own, so that a
// reset is not a write.
func Counter(accountID, subscriptionID, key string, p meter.Period, limit int64) allowance.Allowance {
	return allowance.Allowance{
		Name: strings.Join([]string{"metering", accountID, subscriptionID, key}, "/"), Limit: limit, From: p.From, To: p.To,
	}
}

// parallel is how many counters are read at a time.
const parallel = 8

// used reads how many units of each meter were used in a period.
func (s *Service) used(ctx context.Context, r record, p meter.Period, limits map[string]int64) (map[string]int64, error) {
	out := make(map[string]int64, len(limits))
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, key := range meters(limits) {
		group.Go(func() error {
			n, err := allowance.Used(ctx, s.parts.Table, Counter(r.AccountID, r.ID, key, p, limits[key]))
			if err != nil {
				return fmt.Errorf("read what is used of a quota: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			out[key] = n
			return nil
		})
	}
	return out, group.Wait()
}
