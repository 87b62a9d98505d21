package metering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/store"
)

// Plan is a plan as its owner sees it.
type Plan struct {
	ID string
	// HasSubscriptions is whether any subscription is of it; then it cannot be deleted.
	HasSubscriptions     bool
	CreatedOn, UpdatedOn time.Time
	Terms
}

// Terms are what a plan is made of.
type Terms struct {
	store.Rest

	Label string `dynamodbav:"label"`
	// ExternalID is what it is called elsewhere, unique in its bucket.
	ExternalID string           `dynamodbav:"externalId"`
	Meters     map[string]Meter `dynamodbav:"meters"`
	// TrialDays is how long a trial of it is, 0 for none.
	TrialDays int `dynamodbav:"trialDays,omitempty"`
	// TrialEndStatus is Paused or Canceled, "" where it is left to subscriptions.
	TrialEndStatus Status `dynamodbav:"trialEndStatus,omitempty"`
	// TrialCollectPayment is kept for who takes payments, nil where nothing was said.
	TrialCollectPayment *bool `dynamodbav:"trialCollectPayment,omitempty"`
}

// Meter is what a plan has of a unit.
type Meter struct {
	store.Rest

	Label string `dynamodbav:"label,omitempty"`
	// Max is how many units a period has, at most MaxUnits.
	Max int64 `dynamodbav:"max"`
}

// MeterPatch is a Meter in an update.
type MeterPatch struct {
	Label store.Patch[string]
	// Max is nil for what the meter has already.
	Max *int64
}

// PlanPatch is a change of a plan.
type PlanPatch struct {
	Label, ExternalID *string
	// Meters replaces all of them, unless nil. One that is there already keeps what is not given
	// of it.
	Meters              map[string]MeterPatch
	TrialDays           store.Patch[int]
	TrialEndStatus      store.Patch[Status]
	TrialCollectPayment store.Patch[bool]
}

// planRecord is a plan in the table.
type planRecord struct {
	store.Rest

	ID       string `dynamodbav:"id"`
	BucketID string `dynamodbav:"bucketId"`
	Terms
	// Former are the units of before its changes, the oldest first: a period that ended before a
	// change keeps them, whenever it is written down.
	Former []former `dynamodbav:"former,omitempty"`
	// Subscriptions counts those that are of it.
	Subscriptions int       `dynamodbav:"subscriptions"`
	CreatedOn     time.Time `dynamodbav:"createdOn"`
	UpdatedOn     time.Time `dynamodbav:"updatedOn"`
	Version       int64     `dynamodbav:"version"`
}

// former is what a period had of each meter, of those that ended until a change.
type former struct {
	store.Rest

	Until time.Time        `dynamodbav:"until"`
	Units map[string]int64 `dynamodbav:"units"`
}

// maxFormer is how many days with a change of its meters a plan remembers. Periods are written down
// within two hours of their ends, so that one is enough while nothing is late.
const maxFormer = 7

// remember keeps the units of before a change. Periods end at midnights, so that of several
// changes in a day the first decides.
func (r *planRecord) remember(before Terms, now time.Time) {
	units := Terms.units
	last := len(r.Former) - 1
	if maps.Equal(units(before), units(r.Terms)) || last >= 0 && !r.Former[last].Until.Before(now.UTC().Truncate(24*time.Hour)) {
		return
	}
	r.Former = append(slices.Clone(r.Former), former{Until: now, Units: units(before)})
	r.Former = r.Former[max(0, len(r.Former)-maxFormer):]
}

func (t Terms) units() map[string]int64 {
	out := make(map[string]int64, len(t.Meters))
	for key, m := range t.Meters {
		out[key] = m.Max
	}
	return out
}

// unitsIn are the units of a period: those of now for the current one.
func (r planRecord) unitsIn(p meter.Period) map[string]int64 {
	for _, f := range r.Former {
		if !f.Until.Before(p.To) {
			return f.Units
		}
	}
	return r.units()
}

func (r planRecord) plan() Plan {
	return Plan{ID: r.ID, HasSubscriptions: r.Subscriptions > 0, CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn, Terms: r.Terms}
}

func (r planRecord) resource() audit.Resource {
	return audit.Resource{Type: "plan", ID: r.ID, Metadata: map[string]string{"bucket": r.BucketID}}
}

// counted adds n to the number of the plan's subscriptions. It fails where the plan is gone.
func (r planRecord) counted(n int64) store.Write {
	return store.Update(planKey(r.BucketID, r.ID), store.Add(store.At("subscriptions"), n), store.Add(store.At("version"), 1)).
		Else(store.ErrStale)
}

var (
	errNoPlan       = fault.Missing("metering plan")
	errPlanTaken    = fault.New(fault.Conflict, "The metering bucket has a plan of this planExternalId. Update that one, or give another id.")
	errPlanUsed     = fault.New(fault.Conflict, "The plan has subscriptions. Move them to another plan, or delete them first.")
	errTooManyPlans = fault.New(fault.Invalid, "The metering bucket has %d plans, which is the most it can have. Delete one without subscriptions.", MaxPlans)
)

func (p *problems) terms(t Terms) {
	p.text("label", t.Label, MaxLabelChars)
	p.text("planExternalId", t.ExternalID, MaxExternalChars)
	if len(t.Meters) > MaxMeters {
		p.Add("meters", "has more than %d meters", MaxMeters)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(t.Meters)) {
		m := t.Meters[key]
		if !meterPattern.MatchString(key) {
			p.Add("meters", "a key has to be 1 to 64 of the characters a-z, A-Z, 0-9, _, . and -, and to begin with a letter or digit")
			continue
		}
		if m.Max < 0 || m.Max > MaxUnits {
			p.Add("meters."+key+".max", "has to be a whole number from 0 to %d", int64(MaxUnits))
		}
		if m.Label != "" {
			p.text("meters."+key+".label", m.Label, MaxLabelChars)
		}
	}
	if t.TrialDays < 0 || t.TrialDays > MaxTrialDays {
		p.Add("trialDays", "has to be a whole number from 0 to %d", MaxTrialDays)
	}
	if t.TrialEndStatus != "" && t.TrialEndStatus != Paused && t.TrialEndStatus != Canceled {
		p.Add("trialEndStatus", "has to be paused or canceled")
	}
}

// CreatePlan makes a plan. It answers Invalid for bad terms and a bucket that has MaxPlans, NotFound
// for a bucket that is not there or not seen, and Conflict for an ExternalID in use.
func (s *Service) CreatePlan(ctx context.Context, at BucketAt, t Terms) (Plan, error) {
	var wrong problems
	wrong.terms(t)
	if err := wrong.Err(); err != nil {
		return Plan{}, err
	}
	now := s.now()
	r := planRecord{ID: s.parts.IDs.Ordered("plan", 24), BucketID: at.Bucket, Terms: t, CreatedOn: now, UpdatedOn: now, Version: 1}
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		b, err := s.load(ctx, at)
		switch {
		case err != nil:
			return err
		case b.Plans >= MaxPlans:
			return errTooManyPlans
		}
		return s.parts.Table.Commit(ctx,
			b.count("plans", 1, MaxPlans),
			store.Create(planKey(b.ID, r.ID), r),
			store.Create(planExternalKey(b.ID, t.ExternalID), pointer{ID: r.ID}).Else(errPlanTaken),
			audit.Record(ctx, r.resource()),
		)
	})
	return r.plan(), err
}

// ListPlans gives the bucket's plans, the newest first. It answers NotFound for a bucket that is not
// there or not seen.
func (s *Service) ListPlans(ctx context.Context, at BucketAt) ([]Plan, error) {
	b, err := s.load(ctx, at)
	if err != nil {
		return nil, err
	}
	all, err := store.Collect[planRecord](ctx, s.parts.Table, store.Query{PK: planPartition(b.ID), Descending: true})
	if err != nil {
		return nil, fmt.Errorf("read a bucket's plans: %w", err)
	}
	out := make([]Plan, len(all))
	for i, r := range all {
		out[i] = r.plan()
	}
	return out, nil
}

// ReadPlan gives a plan. One that is not there or not seen is NotFound.
func (s *Service) ReadPlan(ctx context.Context, at BucketAt, id string) (Plan, error) {
	_, r, err := s.loadPlan(ctx, at, id)
	return r.plan(), err
}

func (s *Service) loadPlan(ctx context.Context, at BucketAt, id string) (bucketRecord, planRecord, error) {
	var r planRecord
	plan := store.Want(planKey(at.Bucket, id), &r)
	b, err := s.load(ctx, at, plan)
	if err == nil && !plan.Found {
		err = errNoPlan
	}
	if err != nil {
		return bucketRecord{}, planRecord{}, err
	}
	return b, r, nil
}

// UpdatePlan changes a plan. What its meters have counts for its subscriptions from the moment on, in the
// current period too, and not in those that have passed; the terms of trials for those that are made
// later. It answers Invalid, NotFound and Conflict as CreatePlan does.
func (s *Service) UpdatePlan(ctx context.Context, at BucketAt, id string, in PlanPatch) (Plan, error) {
	var after planRecord
	err := s.parts.Table.Again(ctx, func(ctx context.Context) error {
		b, before, err := s.loadPlan(ctx, at, id)
		if err != nil {
			return err
		}
		after = before
		if after.Terms, err = before.patched(in); err != nil {
			return err
		}
		after.UpdatedOn, after.Version = s.now(), before.Version+1
		after.remember(before.Terms, after.UpdatedOn)
		writes := []store.Write{
			store.Put(planKey(b.ID, id), after).If(store.Equal(store.At("version"), before.Version)).Else(store.ErrStale),
			// Nothing changes in a bucket that is gone.
			store.Check(bucketKey(b.AccountID, b.ID), store.Exists()).Else(store.ErrStale),
			audit.Record(ctx, after.resource()),
		}
		if after.ExternalID != before.ExternalID {
			writes = append(writes,
				store.Delete(planExternalKey(b.ID, before.ExternalID)),
				store.Create(planExternalKey(b.ID, after.ExternalID), pointer{ID: id}).Else(errPlanTaken))
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
	return after.plan(), err
}

// patched gives the terms after a change, or what is wrong with them.
func (t Terms) patched(in PlanPatch) (Terms, error) {
	var wrong problems
	if in.Label != nil {
		t.Label = *in.Label
	}
	if in.ExternalID != nil {
		t.ExternalID = *in.ExternalID
	}
	if in.Meters != nil {
		before := t.Meters
		t.Meters = make(map[string]Meter, len(in.Meters))
		for key, patch := range in.Meters {
			m, known := before[key]
			m.Label = patch.Label.Over(m.Label)
			if patch.Max != nil {
				m.Max = *patch.Max
			} else if !known && meterPattern.MatchString(key) {
				wrong.Add("meters."+key+".max", "is needed: the plan does not have this meter yet")
			}
			t.Meters[key] = m
		}
	}
	t.TrialDays = in.TrialDays.Over(t.TrialDays)
	t.TrialEndStatus = in.TrialEndStatus.Over(t.TrialEndStatus)
	if in.TrialCollectPayment.Set {
		t.TrialCollectPayment = in.TrialCollectPayment.Value
	}
	wrong.terms(t)
	return t, wrong.Err()
}

// DeletePlan deletes a plan. It answers NotFound for one that is not there or not seen, and Conflict
// for one with subscriptions.
func (s *Service) DeletePlan(ctx context.Context, at BucketAt, id string) error {
	return s.parts.Table.Again(ctx, func(ctx context.Context) error {
		b, r, err := s.loadPlan(ctx, at, id)
		switch {
		case err != nil:
			return err
		case r.Subscriptions > 0:
			return errPlanUsed
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(planKey(b.ID, id)).If(store.Equal(store.At("version"), r.Version)).Else(store.ErrStale),
			store.Delete(planExternalKey(b.ID, r.ExternalID)),
			b.count("plans", -1, 0),
			audit.Record(ctx, r.resource()),
		)
	})
}
