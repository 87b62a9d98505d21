package allowance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store"
)

// journals are those of one instance: one, and more of them when it holds parts of
// many quotas.
type journals struct {
	table   *store.Table
	ids     *ids.Source
	now     func() time.Time
	timeout time.Duration
	// room is how many entries a journal takes.
	room int

	mu  sync.Mutex
	all []*journal
}

// maxEntries bounds a journal: each write of it is billed by its size, a unit for
// some eight entries.
const maxEntries = 64

// current is a journal with room, a new one if need be.
func (b *journals) current() *journal {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(j *journal) bool { return j.gone.Load() })
	for _, j := range b.all {
		if j.size() < b.room {
			return j
		}
	}
	const digits = 22 // 131 bits: no two instances have the same
	j := &journal{id: b.ids.Digits(digits), table: b.table, now: b.now, timeout: b.timeout}
	b.all = append(b.all, j)
	return j
}

func (j *journal) size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) + len(j.queue)
}

func (b *journals) take(ctx context.Context, q request, n, begun int64) (*journal, error) {
	if n > q.limit {
		return nil, errSpent
	}
	j := q.journal
	if q.reserve == 0 {
		j = b.current()
	}
	o := &order{period: q.period, limit: q.limit, granted: n, unbegun: n - begun}
	j.add(ctx, o)
	return j, j.wait(ctx, o)
}

// giveBackRounds is how many journals of an instance may turn out to be closed while
// it gives back.
const giveBackRounds = 3

func (b *journals) giveBack(ctx context.Context, _ time.Time, due []refund) (owed []refund, err error) {
	for range giveBackRounds {
		if owed, err = b.giveBackOnce(ctx, due); err != nil || len(owed) == 0 {
			return owed, err
		}
		due = owed
	}
	return owed, nil
}

func (b *journals) giveBackOnce(ctx context.Context, due []refund) (owed []refund, err error) {
	sortRefunds(due)
	type asked struct {
		refund
		*order
	}
	var orders []asked
	for _, r := range due {
		if r.unbegun == 0 || r.journal.gone.Load() {
			// What was not begun is others' by now, or will be.
			r.journal, r.unbegun = b.current(), 0
		}
		if r.n+r.unbegun == 0 {
			continue
		}
		o := &order{period: r.period, granted: -r.n - r.unbegun, unbegun: -r.unbegun}
		r.journal.add(ctx, o)
		orders = append(orders, asked{r, o})
	}
	for _, a := range orders {
		switch e := a.journal.wait(ctx, a.order); {
		case e == nil:
		case errors.Is(e, errUndecided):
			// It may have been given back, so it cannot be again. What was not begun
			// is in a journal that is taken back from; the rest stays counted.
			err = e
		case errors.Is(e, errGone):
			owed = append(owed, a.refund)
		default:
			owed, err = append(owed, a.refund), e
		}
	}
	return owed, err
}

// keep writes to the journals that would soon be held to be dead.
func (b *journals) keep(ctx context.Context) error {
	b.mu.Lock()
	all := slices.Clone(b.all)
	b.mu.Unlock()
	var failed error
	for _, j := range all {
		if o := (&order{}); j.fades() {
			j.add(ctx, o)
			if err := j.wait(ctx, o); err != nil && !errors.Is(err, errGone) {
				failed = err
			}
		}
	}
	return failed
}

// fades reports whether a journal with entries was not written to for a while.
func (j *journal) fades() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) > 0 && !j.gone.Load() && j.due.Sub(j.now()) < deadAfter-dueStep/2
}
