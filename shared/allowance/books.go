package allowance

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// books is how units come from the table to an instance, and go back.
type books interface {
	// take leases n units more for what asks q, and makes begun of all that it
	// holds then spendable: n+q.reserve at most. It says where the others stand.
	// errSpent and errGone say that nothing was done; after any other error the
	// units may be taken and nobody may spend them.
	take(ctx context.Context, q request, n, begun int64) (*journal, error)
	// giveBack returns units that nobody can spend any more, each once, and gives
	// those that are still owed.
	giveBack(ctx context.Context, now time.Time, due []refund) (owed []refund, err error)
	// keep tells the table that the instance lives, where that is due.
	keep(ctx context.Context) error
}

var (
	_ books = direct{}
	_ books = (*journals)(nil)
)

// direct has no trace of what an instance holds but the record's sum: what is
// leased may be spent at once, and dies with its instance.
type direct struct{ ledger }

func (b direct) take(ctx context.Context, q request, n, _ int64) (*journal, error) {
	return nil, b.lease(ctx, q.period, q.limit, n)
}

func (direct) keep(context.Context) error { return nil }

func (b direct) giveBack(ctx context.Context, now time.Time, due []refund) ([]refund, error) {
	sortRefunds(due)
	for len(due) > 0 {
		var batch []refund
		batch, due = nextBatch(due, now)
		if len(batch) == 0 {
			continue
		}
		err := b.release(ctx, batch...)
		if errors.Is(err, errReturned) && len(batch) > 1 {
			// One of them was applied by an earlier attempt whose reply was
			// lost: the others have to go one by one.
			for _, r := range batch {
				if err = b.release(ctx, r); err != nil && !errors.Is(err, errReturned) {
					due = append(due, r)
				}
			}
		} else if err != nil && !errors.Is(err, errReturned) {
			due = append(due, batch...)
		}
		if err != nil && !errors.Is(err, errReturned) {
			return due, err
		}
	}
	return nil, nil
}

// sortRefunds puts them in a fixed order, so that a simulated run can be repeated.
func sortRefunds(due []refund) {
	slices.SortFunc(due, func(x, y refund) int {
		return cmp.Or(strings.Compare(x.period.name, y.period.name), cmp.Compare(x.period.from, y.period.from), cmp.Compare(x.n, y.n), cmp.Compare(x.unbegun, y.unbegun))
	})
}

// refundsPerCommit is half of what a transaction may hold: each is two items.
const refundsPerCommit = 25

// nextBatch splits off refunds of different allowances whose periods still run.
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
