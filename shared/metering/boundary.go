package metering

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// Settle is how long after the end of a period it is written down: what gateways have taken of it and
	// not used is back by then, and a clock that is behind counts no more in it.
	Settle = 10 * time.Minute
	// periodsPerStep is how many periods one Close writes down: an installation may have been
	// stopped for years.
	periodsPerStep = 12
	// maxFrozen is how many periods keep their limits when plans change before Close has come: five years of
	// months, and within what a transaction takes.
	maxFrozen = 60
)

// Close gives the writes of what has passed for a subscription by now, none where nothing has: a row of history for
// each period that ended Settle ago or earlier, the end of its trial, and when it is due next. key is
// one of those of a DueQuery.
//
// They are one commit, with others or alone, whose condition is that the subscription is as it was
// read: where it is not, the commit answers store.ErrStale, nothing has happened, and Close is to be asked
// again. So it may be done twice, late, or by two at a time. more says that further periods wait
// behind those, which the next Close has. Nothing that anybody reads of a subscription depends on it: statuses,
// quotas and periods follow from the clock; only counters are gone some time after their
// period, and with them what was used in it, where Close has not come.
//
// A subscription that has ended is written down until the end of the period in which it did, and is then
// due no more, until its status is set again.
func (s *Service) Close(ctx context.Context, key store.Key, now time.Time) (writes []store.Write, more bool, err error) {
	now = store.Instant(now)
	var before record
	if err := s.parts.Table.Load(ctx, store.Want(key, &before)); err != nil {
		return nil, false, fmt.Errorf("read a subscription that is due: %w", err)
	}
	if before.DuePK == "" { // it is gone, or has ended
		return nil, false, nil
	}
	after := before.at(now)
	for len(writes) < periodsPerStep && after.passed(now) {
		p := after.period(after.Open)
		h, err := s.passed(ctx, before, p, nil) // the history records what the table says
		if err != nil {
			return nil, false, err
		}
		writes = append(writes, store.Put(historyKey(before.ID, p.From), h))
		after.Open = p.To
	}
	more = after.passed(now)
	if len(writes) == 0 && after.Status == before.Status {
		return nil, false, nil
	}
	if after.Status.ended() && after.UpdatedOn.Add(Settle).Before(after.Open) {
		after.DuePK, after.DueSK = "", ""
	} else {
		after.schedule()
	}
	after.Version++
	return append(writes, before.replace(after)), more, nil
}

// passed reports whether a period is to be written down.
func (r record) passed(now time.Time) bool { return !now.Before(r.period(r.Open).To.Add(Settle)) }

// schedule says when Close has something to do next: at the end of the trial, or when the first
// period that is not written down has passed.
func (r *record) schedule() {
	due := r.period(r.Open).To.Add(Settle)
	if r.Status == Trialing && r.TrialEnd != nil && r.TrialEnd.Before(due) {
		due = *r.TrialEnd
	}
	r.DuePK = duePartition(r.ID)
	// The id keeps the index's sort keys apart, which a paged query needs.
	r.DueSK = due.Format(dueFormat) + "#" + r.ID
}

// reschedule is schedule after a change. One that had ended, and is due no more, begins anew with the
// current period when it is brought back.
func (r *record) reschedule(now time.Time) {
	if r.DuePK == "" {
		if r.at(now).Status.ended() {
			return
		}
		r.Open = r.period(now).From
	}
	r.schedule()
}

// freeze gives the writes that keep the limits of the periods that have passed and are not written down
// yet, before the plans are others, or before it is brought back and Close begins with a later one. What
// was used, Close adds. open is the first period after those.
func (s *Service) freeze(ctx context.Context, r record, plans []planRecord, now time.Time) (writes []store.Write, open time.Time, err error) {
	var rows []history
	var wanted []*store.Wanted
	p := r.period(r.Open)
	for ; !p.To.After(now) && len(rows) < maxFrozen; p = r.period(p.To) {
		rows = append(rows, history{From: p.From, To: p.To, Limits: r.quotas(plans, p)})
		wanted = append(wanted, store.Want(historyKey(r.ID, p.From), new(history)))
	}
	if err := s.parts.Table.Load(ctx, wanted...); err != nil {
		return nil, time.Time{}, fmt.Errorf("read the periods that have passed: %w", err)
	}
	for i, row := range rows {
		if !wanted[i].Found { // an earlier change of the plans has kept them otherwise
			writes = append(writes, store.Create(historyKey(r.ID, row.From), row).Else(store.ErrStale))
		}
	}
	return writes, p.From, nil
}
