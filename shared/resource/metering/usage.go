package metering

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/format/meter"
)

// Counter returns the allowance that counts a meter of a subscription in a period. Gateways take units from the
// counter, and the service reads the used units from it. Each period has its own counter, so a new period needs no
// reset.
func Counter(accountID, subscriptionID, meterKey string, p meter.Period, limit int64) allowance.Allowance {
	return allowance.Allowance{
		Name:  strings.Join([]string{"metering", accountID, subscriptionID, meterKey}, "/"),
		Limit: limit, From: p.From, To: p.To,
	}
}

// maxConcurrency is the maximum number of counters that are read concurrently.
const maxConcurrency = 8

// unspentFunc returns the number of units of an allowance that the gateways of this process have leased and not spent.
type unspentFunc func(allowance.Allowance) int64

func (f unspentFunc) units(a allowance.Allowance) int64 {
	if f == nil {
		return 0
	}
	return f(a)
}

// usedUnits reads how many units of each meter were used in a period. Units that unspent, if not nil, reports as leased
// and not spent do not count as used.
func (s *Service) usedUnits(
	ctx context.Context, r record, p meter.Period, limits map[string]int64, unspent unspentFunc,
) (map[string]int64, error) {
	out := make(map[string]int64, len(limits))
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrency)
	for _, key := range sortedMeters(limits) {
		group.Go(func() error {
			counter := Counter(r.AccountID, r.ID, key, p, limits[key])
			before := unspent.units(counter)
			n, err := allowance.Used(ctx, s.parts.Table, counter)
			if err != nil {
				return fmt.Errorf("read what is used of a quota: %w", err)
			}
			// Units that were leased or returned during the read count as used.
			n = max(0, n-min(before, unspent.units(counter)))
			mu.Lock()
			defer mu.Unlock()
			out[key] = n
			return nil
		})
	}
	return out, group.Wait()
}
