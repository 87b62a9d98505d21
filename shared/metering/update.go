package metering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// SubscriptionPatch is a change of a subscription.
type SubscriptionPatch struct {
	// PlanExternalIDs are the plans from now on, nil for the same.
	PlanExternalIDs []string
	// Status is "" for the same.
	Status Status
	// Prorate is the part of the quotas that the current period has, from 0 to 1: of the sum over the
	// plans, rounded down. Later periods have the whole. Nil leaves it as it is, and is the
	// whole where PlanExternalIDs are given.
	Prorate  *float64
	Metadata store.Patch[json.RawMessage]
	TrialEnd store.Patch[time.Time]
}

// UpdateSubscription changes a subscription. Its statuses follow each other in any order. It answers Invalid for
// what is wrong with the change, and NotFound for a subscription that is not there or not seen.
func (s *Service) UpdateSubscription(ctx context.Context, at BucketAt, id string, in SubscriptionPatch) (Subscription, error) {
	c, err := in.check()
	if err != nil {
		return Subscription{}, err
	}
	var after record
	var plans []planRecord
	err = s.parts.Table.Again(ctx, func(ctx context.Context) error {
		b, before, err := s.loadSubscription(ctx, at, id)
		if err != nil {
			return err
		}
		now := s.now()
		after = before.at(now)
		known, err := plansOf(ctx, s.parts.Table, b.ID, []record{before})
		if err != nil {
			return err
		}
		plans = before.ordered(known)
		writes := []store.Write{
			// Nothing changes in a bucket that is gone.
			store.Check(bucketKey(b.AccountID, b.ID), store.Exists()).Else(store.ErrStale),
		}
		if in.PlanExternalIDs != nil {
			moved, err := s.find(ctx, b.ID, in.PlanExternalIDs)
			if err != nil {
				return err
			}
			writes = append(writes, moves(plans, moved)...)
			after.PlanIDs, plans = nil, moved
			for _, p := range moved {
				after.PlanIDs = append(after.PlanIDs, p.ID)
			}
		}
		revived := before.DuePK == "" && in.Status != "" && !in.Status.ended()
		if in.PlanExternalIDs != nil || in.Prorate != nil || revived {
			// What has passed had the quotas of before.
			frozen, open, err := s.freeze(ctx, before, before.ordered(known), now)
			if err != nil {
				return err
			}
			writes = append(writes, frozen...)
			if before.DuePK == "" { // Close does not come
				after.Open = open
			}
		}
		if in.PlanExternalIDs != nil || in.Prorate != nil {
			after.Prorate, after.Prorated = c.prorate, after.period(now).From
		}
		after.apply(in, c.metadata)
		var wrong problems
		wrong.trial(after.TrialStart, after.TrialEnd)
		if err := wrong.Err(); err != nil {
			return err
		}
		switch began := in.Status == Trialing && before.at(now).Status != Trialing; {
		case in.PlanExternalIDs != nil || began:
			after.takes(plans)
		case in.TrialEnd.Set: // another end is another end, and no other terms
			after.endsAfter(plans)
		}
		after.UpdatedOn, after.Version = now, before.Version+1
		after.reschedule(now)
		return s.parts.Table.Commit(ctx, append(writes, before.replace(after), audit.Record(ctx, after.resource()))...)
	})
	if err != nil {
		return Subscription{}, err
	}
	return after.shown(byID(plans), s.now()), nil
}

// checked is what of a SubscriptionPatch is stored in another form.
type checked struct{ metadata, prorate string }

func (in *SubscriptionPatch) check() (checked, error) {
	var wrong problems
	if in.PlanExternalIDs != nil && (len(in.PlanExternalIDs) == 0 || len(in.PlanExternalIDs) > MaxPlansOfOne) {
		wrong.Add("planExternalIds", "has to have 1 to %d plans", MaxPlansOfOne)
	}
	wrong.unique("planExternalIds", in.PlanExternalIDs)
	if in.Status != "" {
		wrong.status("status", in.Status)
	}
	out := checked{metadata: wrong.metadata(in.Metadata.Over(nil)), prorate: wrong.prorate(in.Prorate)}
	in.TrialEnd.Value = wrong.date("trialEndDate", in.TrialEnd.Value)
	return out, wrong.Err()
}

func (r *record) apply(in SubscriptionPatch, metadata string) {
	if in.Status != "" {
		r.Status = in.Status
	}
	if in.Metadata.Set {
		r.Metadata = metadata
	}
	if in.TrialEnd.Set {
		r.TrialEnd = in.TrialEnd.Value
	}
}

// find gives the plans of a bucket that have ids elsewhere, in their order.
func (s *Service) find(ctx context.Context, bucketID string, externalIDs []string) ([]planRecord, error) {
	rows, plans := make([]pointer, len(externalIDs)), make([]planRecord, len(externalIDs))
	wanted := make([]*store.Wanted, len(externalIDs))
	for i, id := range externalIDs {
		if len(id) > 4*MaxExternalChars { // it would be no key
			return nil, notOfBucket(i)
		}
		wanted[i] = store.Want(planExternalKey(bucketID, id), &rows[i])
	}
	if err := s.parts.Table.Load(ctx, wanted...); err != nil {
		return nil, fmt.Errorf("find plans by their external ids: %w", err)
	}
	for i := range wanted {
		if !wanted[i].Found {
			return nil, notOfBucket(i)
		}
		wanted[i] = store.Want(planKey(bucketID, rows[i].ID), &plans[i]).Unchecked(planCounts)
	}
	if err := s.parts.Table.Load(ctx, wanted...); err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	for i := range wanted {
		if !wanted[i].Found {
			return nil, fmt.Errorf("read the plan of an external id: %w", errors.Join(store.ErrStale, store.ErrNotFound))
		}
	}
	return plans, nil
}

func notOfBucket(i int) error {
	return fault.InvalidField(fmt.Sprintf("planExternalIds[%d]", i), "is the planExternalId of no plan of this metering bucket")
}

// moves are the writes by which plans know how many subscriptions they have, when one has others.
func moves(before, after []planRecord) []store.Write {
	var writes []store.Write
	has := func(all []planRecord, p planRecord) bool {
		return slices.ContainsFunc(all, func(other planRecord) bool { return other.ID == p.ID })
	}
	for _, p := range before {
		if !has(after, p) {
			writes = append(writes, p.counted(-1))
		}
	}
	for _, p := range after {
		if !has(before, p) {
			writes = append(writes, p.counted(1))
		}
	}
	return writes
}

// ordered are the subscription's plans in its order.
func (r record) ordered(plans map[string]planRecord) []planRecord {
	out := make([]planRecord, len(r.PlanIDs))
	for i, id := range r.PlanIDs {
		out[i] = plans[id]
	}
	return out
}
