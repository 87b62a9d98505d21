package metering

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
)

// SubscriptionPatch is a change of a subscription.
type SubscriptionPatch struct {
	// PlanExternalIDs are the external ids of the new plans, nil for no change.
	PlanExternalIDs []string
	// Status is the new status, "" for no change.
	Status Status
	// Prorate is the part of the quotas in the current period, from 0 to 1: it multiplies the sum over the plans, and
	// the result is rounded down. Later periods have the full quotas. Nil means no change, or the full quotas if
	// PlanExternalIDs is set.
	Prorate  *float64
	Metadata store.Patch[json.RawMessage]
	TrialEnd store.Patch[time.Time]
}

// UpdateSubscription changes a subscription. Every transition between statuses is allowed. It returns
// Invalid for an invalid change, and NotFound for a subscription that is missing or invisible.
func (s *Service) UpdateSubscription(
	ctx context.Context, at BucketLocator, id string, in SubscriptionPatch,
) (Subscription, error) {
	c, err := in.check()
	if err != nil {
		return Subscription{}, err
	}
	var after record
	var plans []planRecord
	err = s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		b, before, err := s.loadSubscription(ctx, at, id)
		if err != nil {
			return err
		}
		now := s.now()
		after = before.currentAt(now)
		current, err := plansOf(ctx, s.parts.Table, b.ID, []record{before})
		if err != nil {
			return err
		}
		plans = before.orderedPlans(current)
		writes := []store.Write{
			// A subscription in a deleted bucket cannot be changed.
			store.Check(bucketKey(b.AccountID, b.ID), store.Exists()).Else(store.ErrStale),
		}
		if in.PlanExternalIDs != nil {
			newPlans, err := s.plansByExternalID(ctx, b.ID, in.PlanExternalIDs)
			if err != nil {
				return err
			}
			writes = append(writes, planCountWrites(plans, newPlans)...)
			after.PlanIDs, plans = nil, newPlans
			for _, p := range newPlans {
				after.PlanIDs = append(after.PlanIDs, p.ID)
			}
		}
		reactivated := before.DuePK == "" && in.Status != "" && !in.Status.ended()
		if in.PlanExternalIDs != nil || in.Prorate != nil || reactivated {
			// Passed periods must keep their previous quotas.
			frozenWrites, openFrom, err := s.freezeLimits(ctx, before, before.orderedPlans(current), now)
			if err != nil {
				return err
			}
			writes = append(writes, frozenWrites...)
			if before.DuePK == "" { // the subscription had ended, so Close does not run for it
				after.OpenFrom = openFrom
			}
		}
		if in.PlanExternalIDs != nil || in.Prorate != nil {
			after.Prorate, after.ProratedFrom = c.prorate, after.period(now).From
		}
		after.apply(in, c.metadata)
		var invalid problems
		invalid.trial(after.TrialStart, after.TrialEnd)
		if err := invalid.Err(); err != nil {
			return err
		}
		switch trialBegan := in.Status == Trialing && before.currentAt(now).Status != Trialing; {
		case in.PlanExternalIDs != nil || trialBegan:
			after.applyPlanTerms(plans)
		case in.TrialEnd.Set: // a new end changes only the end, not the other terms
			after.setTrialEnd(plans)
		}
		after.UpdatedOn, after.Version = now, before.Version+1
		after.reschedule(now)
		return s.parts.Table.Commit(ctx, append(writes, before.replaceWrite(after), audit.Record(ctx, after.resource()))...)
	})
	if err != nil {
		return Subscription{}, err
	}
	return after.toSubscription(byID(plans), s.now()), nil
}

// encodedPatch contains the fields of a SubscriptionPatch that are stored in another form.
type encodedPatch struct{ metadata, prorate string }

func (p *SubscriptionPatch) check() (encodedPatch, error) {
	var invalid problems
	if p.PlanExternalIDs != nil && (len(p.PlanExternalIDs) == 0 || len(p.PlanExternalIDs) > MaxPlansPerSubscription) {
		invalid.Add("planExternalIds", "has to have 1 to %d plans", MaxPlansPerSubscription)
	}
	invalid.unique("planExternalIds", p.PlanExternalIDs)
	if p.Status != "" {
		invalid.status("status", p.Status)
	}
	out := encodedPatch{metadata: invalid.metadata(p.Metadata.ApplyTo(nil)), prorate: invalid.prorate(p.Prorate)}
	p.TrialEnd.Value = invalid.date("trialEndDate", p.TrialEnd.Value)
	return out, invalid.Err()
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

// plansByExternalID returns the plans of a bucket with these external ids, in the same order.
func (s *Service) plansByExternalID(ctx context.Context, bucketID string, externalIDs []string) ([]planRecord, error) {
	rows, plans := make([]pointer, len(externalIDs)), make([]planRecord, len(externalIDs))
	gets := make([]*store.ReadRequest, len(externalIDs))
	for i, id := range externalIDs {
		if len(id) > 4*MaxExternalChars { // longer than any external id
			return nil, unknownPlanFault(i)
		}
		gets[i] = store.Get(planExternalKey(bucketID, id), &rows[i])
	}
	if err := s.parts.Table.Load(ctx, gets...); err != nil {
		return nil, fmt.Errorf("find plans by their external ids: %w", err)
	}
	for i := range gets {
		if !gets[i].Found {
			return nil, unknownPlanFault(i)
		}
		gets[i] = store.Get(planKey(bucketID, rows[i].ID), &plans[i]).Unchecked(plansUncheckedReason)
	}
	if err := s.parts.Table.Load(ctx, gets...); err != nil {
		return nil, fmt.Errorf("read plans: %w", err)
	}
	for i := range gets {
		if !gets[i].Found {
			return nil, fmt.Errorf("read the plan of an external id: %w", errors.Join(store.ErrStale, store.ErrNotFound))
		}
	}
	return plans, nil
}

func unknownPlanFault(i int) error {
	return fault.InvalidField(fmt.Sprintf("planExternalIds[%d]", i),
		"is the planExternalId of no plan of this metering bucket")
}

// planCountWrites returns the writes that update the number of subscriptions of each plan when a subscription changes
// its plans. before has its plans before the change, and after has its plans after the change.
func planCountWrites(before, after []planRecord) []store.Write {
	var writes []store.Write
	contains := func(all []planRecord, p planRecord) bool {
		return slices.ContainsFunc(all, func(other planRecord) bool { return other.ID == p.ID })
	}
	for _, p := range before {
		if !contains(after, p) {
			writes = append(writes, p.countWrite(-1))
		}
	}
	for _, p := range after {
		if !contains(before, p) {
			writes = append(writes, p.countWrite(1))
		}
	}
	return writes
}

// orderedPlans returns the plans of the subscription, in the order of PlanIDs.
func (r record) orderedPlans(plans map[string]planRecord) []planRecord {
	out := make([]planRecord, len(r.PlanIDs))
	for i, id := range r.PlanIDs {
		out[i] = plans[id]
	}
	return out
}
