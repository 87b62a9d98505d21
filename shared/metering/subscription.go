package metering

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Subscription is a subscription as its owner sees it now.
type Subscription struct {
	ID string
	// Status is the one in force: a trial that is over has its end status.
	Status Status
	// PlanExternalIDs are those of the plans of PlanIDs, in their order.
	PlanIDs, PlanExternalIDs []string
	Renewal                  meter.Strategy
	Region, CustomerKey      string
	ExternalID               string
	CustomerExternalID       string
	ProductKey               string
	Anchor                   time.Time
	Metadata                 json.RawMessage
	TrialStart, TrialEnd     *time.Time
	TrialEndStatus           Status
	// NextBillingCycle is when the current period ends.
	NextBillingCycle     time.Time
	CreatedOn, UpdatedOn time.Time
}

// NewSubscription is what a subscription is made of.
type NewSubscription struct {
	// PlanIDs and PlanExternalIDs name the same plans of the bucket in the same order, 1 to
	// MaxPlansOfOne.
	PlanIDs, PlanExternalIDs []string
	Status                   Status
	Renewal                  meter.Strategy
	// Region is kept as it is given.
	Region string
	// CustomerKey is by what a gateway finds the subscription: a consumer's name, or what the gateway's
	// policy is told to take.
	CustomerKey string
	// ExternalID is unique in the bucket.
	ExternalID, CustomerExternalID string
	// ProductKey may be "".
	ProductKey string
	// Anchor is what periods are counted from, its creation for nil.
	Anchor *time.Time
	// Metadata is a JSON object of at most 1,024 bytes, nil for none.
	Metadata json.RawMessage
	// TrialEnd follows for nil from TrialStart, its creation for nil, and the days of the first plan that has any, where
	// the subscription is Trialing.
	TrialStart, TrialEnd *time.Time
	// TrialEndStatus is "" for that of the first plan that has one, else Canceled.
	TrialEndStatus Status
}

// record is a subscription in the table.
type record struct {
	store.Rest

	ID        string   `dynamodbav:"id"`
	AccountID string   `dynamodbav:"accountId"`
	BucketID  string   `dynamodbav:"bucketId"`
	PlanIDs   []string `dynamodbav:"planIds"`
	// Status is what it was set to; at gives the one in force.
	Status             Status         `dynamodbav:"status"`
	Renewal            meter.Strategy `dynamodbav:"renewal"`
	Region             string         `dynamodbav:"region"`
	CustomerKey        string         `dynamodbav:"customerKey"`
	ExternalID         string         `dynamodbav:"externalId"`
	CustomerExternalID string         `dynamodbav:"customerExternalId"`
	ProductKey         string         `dynamodbav:"productKey,omitempty"`
	Anchor             time.Time      `dynamodbav:"anchor"`
	Metadata           string         `dynamodbav:"metadata,omitempty"`
	TrialStart         *time.Time     `dynamodbav:"trialStart,omitempty"`
	TrialEnd           *time.Time     `dynamodbav:"trialEnd,omitempty"`
	// TrialEndStatus is the one that was given, TrialEndsAs the one that comes: of the
	// plans as they were when the subscription took them or began its trial, where none was given.
	TrialEndStatus Status `dynamodbav:"trialEndStatus,omitempty"`
	TrialEndsAs    Status `dynamodbav:"trialEndsAs"`
	// Prorate is the part of the quotas that the period from Prorated on has, as a decimal number,
	// "" for all.
	Prorate  string    `dynamodbav:"prorate,omitempty"`
	Prorated time.Time `dynamodbav:"prorated"`
	// Open is the beginning of the first period that Close has not written down yet.
	Open      time.Time `dynamodbav:"open"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
	Version   int64     `dynamodbav:"version"`
	// The keys of the due index, absent for one that has ended, of which no period is written
	// down any more.
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
}

func (r record) key() store.Key { return subscriptionKey(r.BucketID, r.ID) }

func (r record) resource() audit.Resource {
	return audit.Resource{Type: "subscription", ID: r.ID, Metadata: map[string]string{"bucket": r.BucketID}}
}

// at is the record with what has come by now: a trial that is over has its end status, since then.
func (r record) at(now time.Time) record {
	if r.Status == Trialing && r.TrialEnd != nil && !now.Before(*r.TrialEnd) {
		r.Status = r.TrialEndsAs
		if r.TrialEnd.After(r.UpdatedOn) {
			r.UpdatedOn = *r.TrialEnd
		}
	}
	return r
}

// period is the one in which an instant lies.
func (r record) period(at time.Time) meter.Period { return meter.At(r.Anchor, r.Renewal, at) }

// replace is the write of what a subscription becomes.
func (r record) replace(after record) store.Write {
	return store.Put(r.key(), after).If(store.Equal(store.At("version"), r.Version)).Else(store.ErrStale)
}

// takes has the plans' terms of trials be those of the subscription.
func (r *record) takes(plans []planRecord) {
	r.TrialEndsAs = r.TrialEndStatus
	for _, p := range plans {
		if r.TrialEndsAs == "" {
			r.TrialEndsAs = p.TrialEndStatus
		}
	}
	if r.TrialEndsAs == "" {
		r.TrialEndsAs = Canceled
	}
	r.endsAfter(plans)
}

// endsAfter has a trial without an end have that of the plans.
func (r *record) endsAfter(plans []planRecord) {
	for _, p := range plans {
		if r.Status == Trialing && r.TrialEnd == nil && p.TrialDays > 0 {
			from := r.CreatedOn
			if r.TrialStart != nil {
				from = *r.TrialStart
			}
			r.TrialEnd = new(from.AddDate(0, 0, p.TrialDays))
		}
	}
}

func (r record) shown(plans map[string]planRecord, now time.Time) Subscription {
	r = r.at(now)
	out := Subscription{
		ID: r.ID, Status: r.Status, PlanIDs: r.PlanIDs, Renewal: r.Renewal, Region: r.Region, CustomerKey: r.CustomerKey,
		ExternalID: r.ExternalID, CustomerExternalID: r.CustomerExternalID, ProductKey: r.ProductKey, Anchor: r.Anchor,
		TrialStart: r.TrialStart, TrialEnd: r.TrialEnd, TrialEndStatus: r.TrialEndStatus,
		NextBillingCycle: r.period(now).To, CreatedOn: r.CreatedOn, UpdatedOn: r.UpdatedOn,
	}
	if r.Metadata != "" {
		out.Metadata = json.RawMessage(r.Metadata)
	}
	for _, id := range r.PlanIDs {
		out.PlanExternalIDs = append(out.PlanExternalIDs, plans[id].ExternalID)
	}
	return out
}

var (
	errNoSubscription       = fault.Missing("metering subscription")
	errSubscriptionTaken    = fault.New(fault.Conflict, "The metering bucket has a subscription of this subscriptionExternalId. Update that one, or give another id.")
	errTooManySubscriptions = fault.New(fault.Invalid, "The metering bucket has %d subscriptions, which is the most it can have. Delete some that have ended, or make another bucket.", MaxSubscriptions)
)

func (n *NewSubscription) check() (metadata string, err error) {
	var wrong problems
	if len(n.PlanIDs) == 0 || len(n.PlanIDs) > MaxPlansOfOne {
		wrong.Add("planIds", "has to have 1 to %d plans", MaxPlansOfOne)
	}
	if len(n.PlanExternalIDs) != len(n.PlanIDs) {
		wrong.Add("planExternalIds", "has to have the planExternalId of each plan of planIds, in the same order")
	}
	wrong.unique("planIds", n.PlanIDs)
	wrong.status("status", n.Status)
	if n.Renewal != meter.Monthly && n.Renewal != meter.Yearly {
		wrong.Add("renewalStrategy", "has to be monthly or yearly")
	}
	wrong.text("region", n.Region, MaxExternalChars)
	wrong.text("customerKey", n.CustomerKey, MaxExternalChars)
	wrong.text("subscriptionExternalId", n.ExternalID, MaxExternalChars)
	wrong.text("customerExternalId", n.CustomerExternalID, MaxExternalChars)
	if n.ProductKey != "" {
		wrong.text("productKey", n.ProductKey, MaxExternalChars)
	}
	n.Anchor = wrong.date("quotaResetAnchor", n.Anchor)
	n.TrialStart, n.TrialEnd = wrong.date("trialStartDate", n.TrialStart), wrong.date("trialEndDate", n.TrialEnd)
	wrong.trial(n.TrialStart, n.TrialEnd)
	if n.TrialEndStatus != "" {
		wrong.status("trialEndStatus", n.TrialEndStatus)
	}
	if n.TrialEndStatus == Trialing {
		wrong.Add("trialEndStatus", "has to be another status than trialing")
	}
	metadata = wrong.metadata(n.Metadata)
	return metadata, wrong.Err()
}

func (p *problems) unique(field string, ids []string) {
	if len(slices.Compact(slices.Sorted(slices.Values(ids)))) < len(ids) {
		p.Add(field, "names a plan twice")
	}
}

func (p *problems) trial(from, to *time.Time) {
	if from != nil && to != nil && to.Before(*from) {
		p.Add("trialEndDate", "lies before trialStartDate")
	}
}

// CreateSubscription makes a subscription. It answers Invalid for what is wrong with it, a plan that
// is not of the bucket, and a bucket that has MaxSubscriptions; NotFound for a bucket that is
// not there or not seen; and Conflict for an ExternalID in use, so that a purchase that is told twice
// makes no second one.
func (s *Service) CreateSubscription(ctx context.Context, at BucketAt, n NewSubscription) (Subscription, error) {
	metadata, err := n.check()
	if err != nil {
		return Subscription{}, err
	}
	now := s.now()
	r := record{
		ID: s.parts.IDs.Ordered("sbsc", 24), AccountID: at.AccountID, BucketID: at.Bucket, PlanIDs: n.PlanIDs, Status: n.Status, Renewal: n.Renewal,
		Region: n.Region, CustomerKey: n.CustomerKey, ExternalID: n.ExternalID, CustomerExternalID: n.CustomerExternalID, ProductKey: n.ProductKey,
		Anchor: now, Metadata: metadata, TrialStart: n.TrialStart, TrialEnd: n.TrialEnd, TrialEndStatus: n.TrialEndStatus,
		CreatedOn: now, UpdatedOn: now, Version: 1,
	}
	if n.Anchor != nil {
		r.Anchor = *n.Anchor
	}
	r.Open = r.period(now).From
	var plans []planRecord
	err = s.parts.Table.Again(ctx, func(ctx context.Context) error {
		plans = make([]planRecord, len(n.PlanIDs))
		wanted := make([]*store.Wanted, len(plans))
		for i, id := range n.PlanIDs {
			wanted[i] = store.Want(planKey(at.Bucket, id), &plans[i]).Unchecked(planCounts)
		}
		b, err := s.load(ctx, at, wanted...)
		switch {
		case err != nil:
			return err
		case b.Subscriptions >= MaxSubscriptions:
			return errTooManySubscriptions
		}
		for i, p := range plans {
			switch {
			case !wanted[i].Found:
				return fault.InvalidField(fmt.Sprintf("planIds[%d]", i), "is no plan of this metering bucket")
			case p.ExternalID != n.PlanExternalIDs[i]:
				return fault.InvalidField(fmt.Sprintf("planExternalIds[%d]", i), "is not the planExternalId of the plan in the same place of planIds")
			}
		}
		made := r
		made.takes(plans)
		made.schedule()
		writes := []store.Write{
			b.count("subscriptions", 1, MaxSubscriptions),
			store.Create(made.key(), made),
			store.Create(subscriptionExternalKey(b.ID, r.ExternalID), pointer{ID: r.ID}).Else(errSubscriptionTaken),
			store.Put(customerRowKey(b.ID, r.CustomerKey, r.ID), pointer{ID: r.ID}),
			audit.Record(ctx, r.resource()),
		}
		for _, p := range plans {
			writes = append(writes, p.counted(1))
		}
		if err := s.parts.Table.Commit(ctx, writes...); err != nil {
			return err
		}
		r = made
		return nil
	})
	if err != nil {
		return Subscription{}, err
	}
	return r.shown(byID(plans), now), nil
}

const planCounts = "a plan counts its subscriptions in the same commit, which fails where it is gone; what else it says may be a moment old"

func byID(plans []planRecord) map[string]planRecord {
	out := make(map[string]planRecord, len(plans))
	for _, p := range plans {
		out[p.ID] = p
	}
	return out
}

// plansOf reads the plans of subscriptions of a bucket, of which it has MaxPlans at most.
func plansOf(ctx context.Context, table *store.Table, bucketID string, all []record) (map[string]planRecord, error) {
	found := map[string]*planRecord{}
	var wanted []*store.Wanted
	for _, r := range all {
		for _, id := range r.PlanIDs {
			if found[id] == nil {
				found[id] = new(planRecord)
				wanted = append(wanted, store.Want(planKey(bucketID, id), found[id]).Unchecked(planCounts))
			}
		}
	}
	out := make(map[string]planRecord, len(found))
	for part := range slices.Chunk(wanted, store.MaxKeys) {
		if err := table.Load(ctx, part...); err != nil {
			return nil, fmt.Errorf("read the plans of subscriptions: %w", err)
		}
	}
	for id, p := range found {
		out[id] = *p
	}
	return out, nil
}

// ListSubscriptions gives a part of the bucket's subscriptions, the newest first, and how many there
// are in all. It answers NotFound for a bucket that is not there or not seen.
func (s *Service) ListSubscriptions(ctx context.Context, at BucketAt, page store.Page) ([]Subscription, int, error) {
	b, err := s.load(ctx, at)
	if err != nil {
		return nil, 0, err
	}
	all, err := store.Collect[record](ctx, s.parts.Table, store.Query{
		PK: subscriptionPartition(b.ID), Descending: true, Offset: page.Offset, Limit: page.Limit,
	})
	if err != nil {
		return nil, 0, fmt.Errorf("read a bucket's subscriptions: %w", err)
	}
	plans, err := plansOf(ctx, s.parts.Table, b.ID, all)
	if err != nil {
		return nil, 0, err
	}
	out, now := make([]Subscription, len(all)), s.now()
	for i, r := range all {
		out[i] = r.shown(plans, now)
	}
	return out, b.Subscriptions, nil
}

// ReadSubscription gives a subscription. One that is not there or not seen is NotFound.
func (s *Service) ReadSubscription(ctx context.Context, at BucketAt, id string) (Subscription, error) {
	_, r, err := s.loadSubscription(ctx, at, id)
	if err != nil {
		return Subscription{}, err
	}
	plans, err := plansOf(ctx, s.parts.Table, r.BucketID, []record{r})
	return r.shown(plans, s.now()), err
}

func (s *Service) loadSubscription(ctx context.Context, at BucketAt, id string) (bucketRecord, record, error) {
	var r record
	subscription := store.Want(subscriptionKey(at.Bucket, id), &r)
	b, err := s.load(ctx, at, subscription)
	if err == nil && !subscription.Found {
		err = errNoSubscription
	}
	if err != nil {
		return bucketRecord{}, record{}, err
	}
	return b, r, nil
}

// DeleteSubscription deletes a subscription with its history. It is gone for everybody when it returns; a
// durable operation removes the history afterwards. It answers NotFound for one that is not there or
// not seen.
func (s *Service) DeleteSubscription(ctx context.Context, at BucketAt, id string) error {
	return s.parts.Table.Again(ctx, func(ctx context.Context) error {
		b, r, err := s.loadSubscription(ctx, at, id)
		if err != nil {
			return err
		}
		writes := append(r.remove(), b.count("subscriptions", -1, 0), audit.Record(ctx, r.resource()),
			operation.Begin(operation.Start{
				ID: s.parts.IDs.Ordered("mop", 24), Kind: forgetHistory, Subject: r.ID, AccountID: r.AccountID, Input: emptying{Subscription: r.ID},
			}, s.now()))
		for _, p := range r.PlanIDs {
			writes = append(writes, planRecord{BucketID: b.ID, ID: p}.counted(-1))
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
}

// remove are the writes that delete a subscription with what leads to it.
func (r record) remove() []store.Write {
	return []store.Write{
		store.Delete(subscriptionExternalKey(r.BucketID, r.ExternalID)),
		store.Delete(customerRowKey(r.BucketID, r.CustomerKey, r.ID)),
		store.Delete(r.key()).If(store.Equal(store.At("version"), r.Version)).Else(store.ErrStale),
	}
}
