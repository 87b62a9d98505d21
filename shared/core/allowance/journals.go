package allowance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store"
)

// journals are the journals of one instance: one, or more if it holds units of many quotas.
type journals struct {
	table   *store.Table
	ids     *ids.Source
	now     func() time.Time
	timeout time.Duration
	// capacity is the maximum number of entries of a journal.
	capacity int

	mu  sync.Mutex
	all []*journal
}

// maxEntries is the maximum number of entries of a journal. Each write is
// billed by the size of the journal: one write unit for about eight entries.
const maxEntries = 64

// available returns a journal that is not full. It creates one if necessary.
func (jo *journals) available() *journal {
	jo.mu.Lock()
	defer jo.mu.Unlock()
	jo.all = slices.DeleteFunc(jo.all, func(j *journal) bool { return j.closed.Load() })
	for _, j := range jo.all {
		if j.size() < jo.capacity {
			return j
		}
	}
	const digits = 22 // 131 bits: no two journals have the same id
	j := &journal{id: jo.ids.Digits(digits), table: jo.table, now: jo.now, timeout: jo.timeout}
	jo.all = append(jo.all, j)
	return j
}

func (j *journal) size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) + len(j.queue)
}

// acquire implements unitStore.
func (jo *journals) acquire(ctx context.Context, q request, n, activate int64) (*journal, error) {
	if n > q.limit {
		return nil, errExceedsLimit
	}
	j := q.journal
	if q.reserve == 0 {
		j = jo.available()
	}
	o := &journalChange{period: q.period, limit: q.limit, granted: n, reserved: n - activate}
	j.add(ctx, o)
	return j, j.wait(ctx, o)
}

// maxRefundRounds is the maximum number of attempts at a return. A further
// attempt is necessary if a journal of the instance turns out to be closed.
const maxRefundRounds = 3

// refundAll implements unitStore.
func (jo *journals) refundAll(ctx context.Context, _ time.Time, due []refund) (failed []refund, err error) {
	for range maxRefundRounds {
		if failed, err = jo.refundOnce(ctx, due); err != nil || len(failed) == 0 {
			return failed, err
		}
		due = failed
	}
	return failed, nil
}

// refundOnce tries to return each refund once. failed has the refunds that can be tried again.
func (jo *journals) refundOnce(ctx context.Context, due []refund) (failed []refund, err error) {
	sortRefunds(due)
	type pendingRefund struct {
		refund
		*journalChange
	}
	var pending []pendingRefund
	for _, r := range due {
		if r.reserved == 0 || r.journal.closed.Load() {
			// Another process has returned the units that were not activated, or will.
			r.journal, r.reserved = jo.available(), 0
		}
		if r.n+r.reserved == 0 {
			continue
		}
		o := &journalChange{period: r.period, granted: -r.n - r.reserved, reserved: -r.reserved}
		r.journal.add(ctx, o)
		pending = append(pending, pendingRefund{r, o})
	}
	for _, p := range pending {
		switch e := p.journal.wait(ctx, p.journalChange); {
		case e == nil:
		case errors.Is(e, errOutcomeUnknown):
			// The units may have been returned, so a repeat is not possible. Another process returns the units
			// that were not activated, because they are in the journal. The activated units stay counted as spent.
			err = e
		case errors.Is(e, errJournalClosed):
			failed = append(failed, p.refund)
		default:
			failed, err = append(failed, p.refund), e
		}
	}
	return failed, err
}

// keepAlive writes the journals that would soon be presumed dead.
func (jo *journals) keepAlive(ctx context.Context) error {
	jo.mu.Lock()
	all := slices.Clone(jo.all)
	jo.mu.Unlock()
	var failed error
	for _, j := range all {
		if o := (&journalChange{}); j.nearExpiry() {
			j.add(ctx, o)
			if err := j.wait(ctx, o); err != nil && !errors.Is(err, errJournalClosed) {
				failed = err
			}
		}
	}
	return failed
}

// nearExpiry reports whether a journal with entries has not been written for some time.
func (j *journal) nearExpiry() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries) > 0 && !j.closed.Load() && j.due.Sub(j.now()) < deadAfter-dueStep/2
}
