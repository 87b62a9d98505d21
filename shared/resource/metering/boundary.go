package metering

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// SettleTime is the time between the end of a period and its entry in the history. In this time, gateways return
	// the units that they leased and did not use, and gateways with slow clocks stop counting in the old period.
	SettleTime = 10 * time.Minute
	// maxPeriodsPerClose is the maximum number of periods that one Close records, because an installation may have been stopped for years.
	maxPeriodsPerClose = 12
	// maxFrozenPeriods is the maximum number of periods whose limits are kept when plans
	// change before Close has run: five years of months, which fit into a transaction.
	maxFrozenPeriods = 60
)

const (
	// duePrefix is the key prefix of the due index's partitions with subscriptions, sorted by the time when Close is due.
	duePrefix store.KeyPrefix = "metering-due"
	// DueShards is the number of partitions of the due index for subscriptions. Most
	// subscriptions are due at the same midnight, and a partition accepts 1,000 writes a second.
	DueShards = 16
	// dueFormat is the format of due times in keys. The texts sort like the times, because all have the same length.
	dueFormat = "2006-01-02T15:04:05.000Z"
)

func duePartition(id string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(id))
	return duePrefix.Partition(strconv.Itoa(int(h.Sum32() % DueShards)))
}

// DueQuery returns the query for the subscriptions of a shard that are due for Close at now, sorted by their due time.
// shard is from 0 to DueShards-1. Use it with Table.Keys or Table.Each: the items of the index contain only keys.
func DueQuery(shard int, now time.Time) store.Query {
	return store.Query{
		Index: store.DueIndex, PK: duePrefix.Partition(strconv.Itoa(shard)),
		// "$" sorts after "#", so that the query includes every id of this millisecond.
		UpTo: store.Instant(now).Format(dueFormat) + "$",
	}
}

// Close returns the writes that bring the record of a subscription up to now: a row of history for each period that
// ended at least SettleTime ago, the end of its trial, and the time of its next Close. It returns no writes if there is
// nothing to record. key is a key from a DueQuery.
//
// Commit all the writes in one transaction, which may contain other writes. If the subscription has changed since Close
// read it, the commit returns store.ErrStale and writes nothing, and the caller should call Close again. So Close may
// run twice, late, or concurrently. more reports whether further periods wait for the next Close. Readers of a
// subscription do not depend on Close: statuses, quotas and periods follow from the clock. Only the counters expire
// some time after their period. If Close has not run by then, the used units of the period are lost.
//
// For a subscription that has ended, Close records the periods up to the period that contains the instant SettleTime
// after its last change, which is normally its end. The subscription is then due again only after it was reactivated.
func (s *Service) Close(
	ctx context.Context, key store.Key, now time.Time,
) (writes []store.Write, more bool, err error) {
	now = store.Instant(now)
	var before record
	if err := s.parts.Table.Load(ctx, store.Get(key, &before)); err != nil {
		return nil, false, fmt.Errorf("read a subscription that is due: %w", err)
	}
	if before.DuePK == "" { // the subscription was deleted or has ended
		return nil, false, nil
	}
	after := before.currentAt(now)
	for len(writes) < maxPeriodsPerClose && after.periodSettled(now) {
		p := after.period(after.OpenFrom)
		h, err := s.loadPeriod(ctx, before, p, nil) // the history records what the table contains
		if err != nil {
			return nil, false, err
		}
		writes = append(writes, store.Put(historyKey(before.ID, p.From), h))
		after.OpenFrom = p.To
	}
	more = after.periodSettled(now)
	if len(writes) == 0 && after.Status == before.Status {
		return nil, false, nil
	}
	if after.Status.ended() && after.UpdatedOn.Add(SettleTime).Before(after.OpenFrom) {
		after.DuePK, after.DueSK = "", ""
	} else {
		after.schedule()
	}
	after.Version++
	return append(writes, before.replaceWrite(after)), more, nil
}

// periodSettled reports whether the first unrecorded period of the subscription ended at least SettleTime ago.
func (r record) periodSettled(now time.Time) bool {
	return !now.Before(r.period(r.OpenFrom).To.Add(SettleTime))
}

// schedule sets the due time of the next Close. It is the earlier of two times: the end of the trial, and SettleTime
// after the end of the first unrecorded period.
func (r *record) schedule() {
	due := r.period(r.OpenFrom).To.Add(SettleTime)
	if r.Status == Trialing && r.TrialEnd != nil && r.TrialEnd.Before(due) {
		due = *r.TrialEnd
	}
	r.DuePK = duePartition(r.ID)
	// The id makes the index's sort keys unique, which a paged query needs.
	r.DueSK = due.Format(dueFormat) + "#" + r.ID
}

// reschedule sets the due time of the next Close after a change. If the change reactivates an ended subscription, Close
// continues with the current period.
func (r *record) reschedule(now time.Time) {
	if r.DuePK == "" {
		if r.currentAt(now).Status.ended() {
			return
		}
		r.OpenFrom = r.period(now).From
	}
	r.schedule()
}

// freezeLimits returns the writes that keep the limits of passed periods that are not recorded yet, at most
// maxFrozenPeriods. Call it before the plans change, or before a subscription is reactivated and Close starts with a
// later period. Close adds the used units later, unless the subscription is reactivated. open is the beginning of the
// first period after the frozen ones.
func (s *Service) freezeLimits(
	ctx context.Context, r record, plans []planRecord, now time.Time,
) (writes []store.Write, open time.Time, err error) {
	var rows []history
	var gets []*store.ReadRequest
	p := r.period(r.OpenFrom)
	for ; !p.To.After(now) && len(rows) < maxFrozenPeriods; p = r.period(p.To) {
		rows = append(rows, history{From: p.From, To: p.To, Limits: r.quotas(plans, p)})
		gets = append(gets, store.Get(historyKey(r.ID, p.From), new(history)))
	}
	if err := s.parts.Table.Load(ctx, gets...); err != nil {
		return nil, time.Time{}, fmt.Errorf("read the periods that have passed: %w", err)
	}
	for i, row := range rows {
		if !gets[i].Found { // otherwise an earlier change of the plans has kept the limits
			writes = append(writes, store.Create(historyKey(r.ID, row.From), row).Else(store.ErrStale))
		}
	}
	return writes, p.From, nil
}
