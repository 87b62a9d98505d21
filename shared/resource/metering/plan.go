package metering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/meter"
)

// Plan is the public form of a plan.
type Plan struct {
	ID string
	// HasSubscriptions reports whether the plan has subscriptions. Such a plan cannot be deleted.
	HasSubscriptions     bool
	CreatedOn, UpdatedOn time.Time
	Terms
}

// Terms are the properties of a plan that its owner sets.
type Terms struct {
	store.UnknownAttributes

	Label string `dynamodbav:"label"`
	// ExternalID is the id of the plan in another system. It is unique in its bucket.
	ExternalID string           `dynamodbav:"externalId"`
	Meters     map[string]Meter `dynamodbav:"meters"`
	// TrialDays is the length of a trial in days. With 0, the plan sets no end of a trial.
	TrialDays int `dynamodbav:"trialDays,omitempty"`
	// TrialEndStatus is Paused or Canceled, or "" if the plan does not set it.
	TrialEndStatus Status `dynamodbav:"trialEndStatus,omitempty"`
	// TrialCollectPayment is stored for a payment system, nil if it was not set.
	TrialCollectPayment *bool `dynamodbav:"trialCollectPayment,omitempty"`
}

// Meter is a unit in a plan, with its quota.
type Meter struct {
	store.UnknownAttributes

	Label string `dynamodbav:"label,omitempty"`
	// Max is the number of units in a period, at most MaxUnits.
	Max int64 `dynamodbav:"max"`
}

// MeterPatch is a change of a Meter.
type MeterPatch struct {
	Label store.Patch[string]
	// Max is the new maximum, nil for the current one.
	Max *int64
}

// PlanPatch is a change of a plan.
type PlanPatch struct {
	Label, ExternalID *string
	// Meters, if not nil, replaces all meters. An existing meter keeps the fields that are not set.
	Meters              map[string]MeterPatch
	TrialDays           store.Patch[int]
	TrialEndStatus      store.Patch[Status]
	TrialCollectPayment store.Patch[bool]
}

const (
	// planPrefix is the key prefix of the plans of a bucket, by their ids, which sort by creation.
	planPrefix store.KeyPrefix = "metering-plan"
	// planExternalPrefix is the key prefix of the ids of plans, by external id. It ensures that external ids are unique
	// in the bucket.
	planExternalPrefix store.KeyPrefix = "metering-plan-external"
)

// planRecord is a plan in the table.
type planRecord struct {
	store.UnknownAttributes

	ID       string `dynamodbav:"id"`
	BucketID string `dynamodbav:"bucketId"`
	Terms
	// PastUnits has an entry for each of the last maxPastUnits days on which the meters changed, the oldest first. An
	// entry contains the units before the first change of its day. A period that ended before a change keeps the units
	// from before the change, even if the period is recorded later.
	PastUnits []pastUnits `dynamodbav:"former,omitempty"`
	// Subscriptions is the number of subscriptions to the plan.
	Subscriptions int       `dynamodbav:"subscriptions"`
	CreatedOn     time.Time `dynamodbav:"createdOn"`
	UpdatedOn     time.Time `dynamodbav:"updatedOn"`
	Version       int64     `dynamodbav:"version"`
}

func planPartition(bucketID string) string { return planPrefix.Partition(bucketID) }

func planKey(bucketID, planID string) store.Key { return store.KeyIn(planPartition(bucketID), planID) }

func planExternalKey(bucketID, externalID string) store.Key {
	return planExternalPrefix.Key(bucketID, externalID)
}

// pastUnits contains the units of each meter before a change. They apply to the periods that ended before the change.
type pastUnits struct {
	store.UnknownAttributes

	Until time.Time        `dynamodbav:"until"`
	Units map[string]int64 `dynamodbav:"units"`
}

// maxPastUnits is the maximum number of entries in PastUnits: one for each day on which the meters changed. Periods are
// normally recorded within two hours after their end, and then one entry is enough.
const maxPastUnits = 7

// recordPastUnits adds the units before a change to PastUnits. Periods end at midnight, so only the first change of a
// day adds an entry.
func (r *planRecord) recordPastUnits(before Terms, now time.Time) {
	units := Terms.units
	last := len(r.PastUnits) - 1
	if maps.Equal(units(before), units(r.Terms)) ||
		last >= 0 && !r.PastUnits[last].Until.Before(now.UTC().Truncate(24*time.Hour)) {
		return
	}
	r.PastUnits = append(slices.Clone(r.PastUnits), pastUnits{Until: now, Units: units(before)})
	r.PastUnits = r.PastUnits[max(0, len(r.PastUnits)-maxPastUnits):]
}

func (t Terms) units() map[string]int64 {
	out := make(map[string]int64, len(t.Meters))
	for key, m := range t.Meters {
		out[key] = m.Max
	}
	return out
}

// unitsIn returns the units of each meter in a period. The current period has the current units.
func (r planRecord) unitsIn(p meter.Period) map[string]int64 {
	for _, f := range r.PastUnits {
		if !f.Until.Before(p.To) {
			return f.Units
		}
	}
	return r.units()
}

func (r planRecord) toPlan() Plan {
	return Plan{
		ID: r.ID, HasSubscriptions: r.Subscriptions > 0, CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
		Terms: r.Terms,
	}
}

func (r planRecord) resource() audit.Resource {
	return audit.Resource{Type: "plan", ID: r.ID, Metadata: map[string]string{"bucket": r.BucketID}}
}

// countWrite returns the write that adds n to the number of the plan's subscriptions. The write fails if the plan was
// deleted.
func (r planRecord) countWrite(n int64) store.Write {
	return store.Update(planKey(r.BucketID, r.ID), store.Add(store.At("subscriptions"), n),
		store.Add(store.At("version"), 1)).
		Else(store.ErrStale)
}

var (
	errNoPlan              = fault.Missing("metering plan")
	errPlanExternalIDInUse = fault.New(fault.Conflict,
		"The metering bucket has a plan of this planExternalId. Update that one, or give another id.")
	errPlanInUse = fault.New(fault.Conflict,
		"The plan has subscriptions. Move them to another plan, or delete them first.")
	errTooManyPlans = fault.New(fault.Invalid,
		"The metering bucket has %d plans, which is the most it can have. Delete one without subscriptions.", MaxPlans)
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
			p.Add("meters", "a key has to be 1 to 64 of the characters a-z, A-Z, 0-9, _, . and -, and to begin with a "+
				"letter or digit")
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

// CreatePlan creates a plan. It returns Invalid for invalid terms and for a bucket that already has MaxPlans.
// It returns NotFound for a bucket that is missing or invisible, and Conflict for an ExternalID in use.
func (s *Service) CreatePlan(ctx context.Context, at BucketLocator, t Terms) (Plan, error) {
	var invalid problems
	invalid.terms(t)
	if err := invalid.Err(); err != nil {
		return Plan{}, err
	}
	now := s.now()
	r := planRecord{
		ID: s.parts.IDs.Ordered("plan", 24), BucketID: at.Bucket, Terms: t, CreatedOn: now, UpdatedOn: now,
		Version: 1,
	}
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		b, err := s.load(ctx, at)
		switch {
		case err != nil:
			return err
		case b.Plans >= MaxPlans:
			return errTooManyPlans
		}
		return s.parts.Table.Commit(ctx,
			b.countWrite("plans", 1, MaxPlans),
			store.Create(planKey(b.ID, r.ID), r),
			store.Create(planExternalKey(b.ID, t.ExternalID), pointer{ID: r.ID}).Else(errPlanExternalIDInUse),
			audit.Record(ctx, r.resource()),
		)
	})
	return r.toPlan(), err
}

// ListPlans returns the bucket's plans, the newest first. It returns NotFound for a bucket that is missing or invisible.
func (s *Service) ListPlans(ctx context.Context, at BucketLocator) ([]Plan, error) {
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
		out[i] = r.toPlan()
	}
	return out, nil
}

// ReadPlan returns a plan. It returns NotFound if the plan is missing or invisible.
func (s *Service) ReadPlan(ctx context.Context, at BucketLocator, id string) (Plan, error) {
	_, r, err := s.loadPlan(ctx, at, id)
	return r.toPlan(), err
}

func (s *Service) loadPlan(ctx context.Context, at BucketLocator, id string) (bucketRecord, planRecord, error) {
	var r planRecord
	plan := store.Get(planKey(at.Bucket, id), &r)
	b, err := s.load(ctx, at, plan)
	if err == nil && !plan.Found {
		err = errNoPlan
	}
	if err != nil {
		return bucketRecord{}, planRecord{}, err
	}
	return b, r, nil
}

// UpdatePlan changes a plan. New meters apply to its subscriptions immediately, including the current period, but not to passed
// periods. New terms of trials apply to subscriptions whose plans are set or whose trial begins later. UpdatePlan
// returns Invalid, NotFound and Conflict like CreatePlan.
func (s *Service) UpdatePlan(ctx context.Context, at BucketLocator, id string, in PlanPatch) (Plan, error) {
	var after planRecord
	err := s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		b, before, err := s.loadPlan(ctx, at, id)
		if err != nil {
			return err
		}
		after = before
		if after.Terms, err = before.withPatch(in); err != nil {
			return err
		}
		after.UpdatedOn, after.Version = s.now(), before.Version+1
		after.recordPastUnits(before.Terms, after.UpdatedOn)
		writes := []store.Write{
			store.Put(planKey(b.ID, id), after).If(store.Equal(store.At("version"), before.Version)).Else(store.ErrStale),
			// The plan of a deleted bucket cannot be changed.
			store.Check(bucketKey(b.AccountID, b.ID), store.Exists()).Else(store.ErrStale),
			audit.Record(ctx, after.resource()),
		}
		if after.ExternalID != before.ExternalID {
			writes = append(writes,
				store.Delete(planExternalKey(b.ID, before.ExternalID)),
				store.Create(planExternalKey(b.ID, after.ExternalID), pointer{ID: id}).Else(errPlanExternalIDInUse))
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
	return after.toPlan(), err
}

// withPatch returns the terms after a change, or the validation errors.
func (t Terms) withPatch(in PlanPatch) (Terms, error) {
	var invalid problems
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
			m, exists := before[key]
			m.Label = patch.Label.ApplyTo(m.Label)
			if patch.Max != nil {
				m.Max = *patch.Max
			} else if !exists && meterPattern.MatchString(key) {
				invalid.Add("meters."+key+".max", "is needed: the plan does not have this meter yet")
			}
			t.Meters[key] = m
		}
	}
	t.TrialDays = in.TrialDays.ApplyTo(t.TrialDays)
	t.TrialEndStatus = in.TrialEndStatus.ApplyTo(t.TrialEndStatus)
	if in.TrialCollectPayment.Set {
		t.TrialCollectPayment = in.TrialCollectPayment.Value
	}
	invalid.terms(t)
	return t, invalid.Err()
}

// DeletePlan deletes a plan. It returns NotFound for a plan that is missing or invisible, and Conflict for a plan with subscriptions.
func (s *Service) DeletePlan(ctx context.Context, at BucketLocator, id string) error {
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		b, r, err := s.loadPlan(ctx, at, id)
		switch {
		case err != nil:
			return err
		case r.Subscriptions > 0:
			return errPlanInUse
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(planKey(b.ID, id)).If(store.Equal(store.At("version"), r.Version)).Else(store.ErrStale),
			store.Delete(planExternalKey(b.ID, r.ExternalID)),
			b.countWrite("plans", -1, 0),
			audit.Record(ctx, r.resource()),
		)
	})
}
