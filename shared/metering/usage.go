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

// holds returns how many units of an allowance the gateways of this process have leased and not spent.
type holds func(allowance.Allowance) int64

func (h holds) of(a allowance.Allowance) int64 {
	if h == nil {
		return 0
	}
	return h(a)
}

// used reads how many units of each meter were used in a period.
func (s *Service) used(ctx context.Context, r record, p meter.Period, limits map[string]int64, held holds) (map[string]int64, error) {
	out := make(map[string]int64, len(limits))
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, key := range meters(limits) {
		group.Go(func() error {
			counter := Counter(r.AccountID, r.ID, key, p, limits[key])
			before := held.of(counter)
			n, err := allowance.Used(ctx, s.parts.Table, counter)
			if err != nil {
				return fmt.Errorf("read what is used of a quota: %w", err)
			}
			// If units were leased or given back meanwhile, the larger number counts as used.
			n = max(0, n-min(before, held.of(counter)))
			mu.Lock()
			defer mu.Unlock()
			out[key] = n
			return nil
		})
	}
	return out, group.Wait()
}
