package allowance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// unitStore moves units between the table and an instance.
type unitStore interface {
	// acquire leases n more units for the request q, and activates some of the leased units: only activated units can be
	// spent. activate is the number of units to activate. They can also come from the reserve, the units that were leased
	// but not activated before, so activate is at most n+q.reserve. acquire returns the journal that records the units
	// that remain in the reserve. errExceedsLimit and errJournalClosed mean that nothing was done. After any other error,
	// the units may have been leased, and must not be spent.
	acquire(ctx context.Context, q request, n, activate int64) (*journal, error)
	// refundAll adds units back to their records in the table, each once. The instance must not spend them any
	// more. The result has the refunds that failed.
	refundAll(ctx context.Context, now time.Time, due []refund) (failed []refund, err error)
	// keepAlive writes to the table that the instance is alive, if this is due.
	keepAlive(ctx context.Context) error
}

var (
	_ unitStore = directStore{}
	_ unitStore = (*journals)(nil)
)

// directStore is the unitStore of a Pool without journals. The table has only the sum of
// all leased units: these can be spent immediately, and are lost if the instance dies.
type directStore struct{ ledger }

func (s directStore) acquire(ctx context.Context, q request, n, _ int64) (*journal, error) {
	return nil, s.lease(ctx, q.period, q.limit, n)
}

func (directStore) keepAlive(context.Context) error { return nil }

// refundAll implements unitStore. It drops refunds whose periods have ended.
func (s directStore) refundAll(ctx context.Context, now time.Time, due []refund) ([]refund, error) {
	sortRefunds(due)
	for len(due) > 0 {
		var batch []refund
		batch, due = nextBatch(due, now)
		if len(batch) == 0 {
			continue
		}
		err := s.release(ctx, batch...)
		if errors.Is(err, errAlreadyReturned) && len(batch) > 1 {
			// An earlier attempt applied a refund of the batch, and the reply was lost. Return the refunds one by one.
			for _, r := range batch {
				if err = s.release(ctx, r); err != nil && !errors.Is(err, errAlreadyReturned) {
					due = append(due, r)
				}
			}
		} else if err != nil && !errors.Is(err, errAlreadyReturned) {
			due = append(due, batch...)
		}
		if err != nil && !errors.Is(err, errAlreadyReturned) {
			return due, err
		}
	}
	return nil, nil
}

// sortRefunds sorts refunds in a fixed order, so that simulated runs are reproducible.
func sortRefunds(due []refund) {
	slices.SortFunc(due, func(x, y refund) int {
		return cmp.Or(strings.Compare(x.period.name, y.period.name), cmp.Compare(x.period.from, y.period.from),
			cmp.Compare(x.n, y.n), cmp.Compare(x.reserved, y.reserved))
	})
}

// refundsPerCommit limits the refunds of a transaction. Each refund takes two items.
const refundsPerCommit = 25

// nextBatch returns refunds for one transaction, each of a different allowance,
// and the refunds after them. It drops refunds whose periods have ended.
func nextBatch(due []refund, now time.Time) (batch, rest []refund) {
	seen := map[period]bool{}
	for i, r := range due {
		switch {
		case !now.Before(r.period.end()):
		case seen[r.period] || len(batch) == refundsPerCommit:
			return batch, due[i:]
		default:
			seen[r.period] = true
			batch = append(batch, r)
		}
	}
	return batch, nil
}
