package metering

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/meter"
)

// Subscription is the public form of a subscription in its current state.
type Subscription struct {
	ID string
	// Status is the current status. If the trial is over, it is the status after the trial.
	Status Status
	// PlanExternalIDs are the external ids of the plans of PlanIDs, in the same order.
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
	// NextBillingCycle is the end of the current period.
	NextBillingCycle     time.Time
	CreatedOn, UpdatedOn time.Time
}

// NewSubscription is the input of CreateSubscription.
type NewSubscription struct {
	// PlanIDs and PlanExternalIDs identify the same 1 to MaxPlansPerSubscription plans of the bucket, in the same order.
	PlanIDs, PlanExternalIDs []string
	Status                   Status
	Renewal                  meter.Strategy
	// Region is stored without interpretation.
	Region string
	// CustomerKey is the key with which a gateway finds the subscription: a
	// consumer's name, or the value that the gateway's policy is configured to use.
	CustomerKey string
	// ExternalID is unique in the bucket.
	ExternalID, CustomerExternalID string
	// ProductKey may be "".
	ProductKey string
	// Anchor is the time from which periods are counted, or nil for the time of the creation.
	Anchor *time.Time
	// Metadata is a JSON object of at most 1,024 bytes, nil for none.
	Metadata json.RawMessage
	// TrialEnd is the end of the trial. If it is nil and the subscription is Trialing, the trial lasts the TrialDays of
	// the first plan that has any. It then begins at TrialStart, or at the creation if TrialStart is nil. If no plan
	// has TrialDays, the trial has no end.
	TrialStart, TrialEnd *time.Time
	// TrialEndStatus is the status after the trial. If it is "", the status comes from the first plan that has a
	// TrialEndStatus. Without such a plan, it is Canceled.
	TrialEndStatus Status
}

const (
	// subscriptionPrefix is the key prefix of the subscriptions of a bucket, by their ids, which sort by creation. A
	// list reads them page by page, the newest first. The due index contains them.
	subscriptionPrefix store.KeyPrefix = "metering-subscription"
	// subscriptionExternalPrefix is the key prefix of the external ids of subscriptions. It ensures that they are
	// unique in the bucket.
	subscriptionExternalPrefix store.KeyPrefix = "metering-subscription-external"
	// customerPrefix is the key prefix of the ids of a customer's subscriptions. A gateway reads the newest
	// maxCustomerSubscriptions of them.
	customerPrefix store.KeyPrefix = "metering-customer"
)

// record is a subscription in the table.
type record struct {
	store.UnknownAttributes

	ID        string   `dynamodbav:"id"`
	AccountID string   `dynamodbav:"accountId"`
	BucketID  string   `dynamodbav:"bucketId"`
	PlanIDs   []string `dynamodbav:"planIds"`
	// Status is the status that was set last; the method currentAt returns the current one.
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
	// TrialEndStatus is the status after the trial that the owner has set explicitly, or "". EffectiveTrialEndStatus is
	// the status that takes effect after the trial. Without a TrialEndStatus, it is copied from the plans when the
	// subscription's plans are set or its trial begins.
	TrialEndStatus          Status `dynamodbav:"trialEndStatus,omitempty"`
	EffectiveTrialEndStatus Status `dynamodbav:"trialEndsAs"`
	// Prorate is the part of the quotas that applies in the period that begins at ProratedFrom. It is a decimal number
	// from 0 to 1, or "" for the full quotas.
	Prorate      string    `dynamodbav:"prorate,omitempty"`
	ProratedFrom time.Time `dynamodbav:"prorated"`
	// OpenFrom is the beginning of the first period that Close has not recorded yet.
	OpenFrom  time.Time `dynamodbav:"open"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	UpdatedOn time.Time `dynamodbav:"updatedOn"`
	Version   int64     `dynamodbav:"version"`
	// The keys of the due index. They are absent for a subscription that has ended and whose last period Close has
	// recorded, because its further periods are not recorded.
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
}

func subscriptionPartition(bucketID string) string { return subscriptionPrefix.Partition(bucketID) }

func subscriptionKey(bucketID, subscriptionID string) store.Key {
	return store.KeyIn(subscriptionPartition(bucketID), subscriptionID)
}

func subscriptionExternalKey(bucketID, externalID string) store.Key {
	return subscriptionExternalPrefix.Key(bucketID, externalID)
}

// pointer is a row with the id of a subscription or a plan, under another key than the record.
type pointer struct {
	store.UnknownAttributes

	ID string `dynamodbav:"id"`
}

func customerPartition(bucketID, customerKey string) string {
	return customerPrefix.Partition(bucketID, customerKey)
}

func customerRowKey(bucketID, customerKey, subscriptionID string) store.Key {
	return store.KeyIn(customerPartition(bucketID, customerKey), subscriptionID)
}

func (r record) key() store.Key { return subscriptionKey(r.BucketID, r.ID) }

func (r record) resource() audit.Resource {
	return audit.Resource{Type: "subscription", ID: r.ID, Metadata: map[string]string{"bucket": r.BucketID}}
}

// currentAt returns the record with the changes that the clock has caused by now: if its trial is over, Status is the
// status after the trial, and UpdatedOn is not before the end of the trial.
func (r record) currentAt(now time.Time) record {
	if r.Status == Trialing && r.TrialEnd != nil && !now.Before(*r.TrialEnd) {
		r.Status = r.EffectiveTrialEndStatus
		if r.TrialEnd.After(r.UpdatedOn) {
			r.UpdatedOn = *r.TrialEnd
		}
	}
	return r
}

// period returns the period that contains an instant.
func (r record) period(at time.Time) meter.Period { return meter.At(r.Anchor, r.Renewal, at) }

// replaceWrite returns the write that replaces the subscription with after. It fails with store.ErrStale if the
// subscription has changed since r was read.
func (r record) replaceWrite(after record) store.Write {
	return store.Put(r.key(), after).If(store.Equal(store.At("version"), r.Version)).Else(store.ErrStale)
}

// applyPlanTerms applies the trial terms of the plans to the subscription.
func (r *record) applyPlanTerms(plans []planRecord) {
	r.EffectiveTrialEndStatus = r.TrialEndStatus
	for _, p := range plans {
		if r.EffectiveTrialEndStatus == "" {
			r.EffectiveTrialEndStatus = p.TrialEndStatus
		}
	}
	if r.EffectiveTrialEndStatus == "" {
		r.EffectiveTrialEndStatus = Canceled
	}
	r.setTrialEnd(plans)
}

// setTrialEnd sets the end of a trial that has no end yet: TrialDays of the first plan that has any, counted from
// TrialStart, or from the creation if TrialStart is nil.
func (r *record) setTrialEnd(plans []planRecord) {
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

func (r record) toSubscription(plans map[string]planRecord, now time.Time) Subscription {
	r = r.currentAt(now)
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
	errNoSubscription              = fault.Missing("metering subscription")
	errSubscriptionExternalIDInUse = fault.New(fault.Conflict, "The metering bucket has a subscription of this "+
		"subscriptionExternalId. Update that one, or give another id.")
	errTooManySubscriptions = fault.New(fault.Invalid, "The metering bucket has %d subscriptions, which is the "+
		"most it can have. Delete some that have ended, or make another bucket.", MaxSubscriptions)
)

// check validates the input, and rounds its times down to milliseconds. metadata is Metadata in the stored form.
func (n *NewSubscription) check() (metadata string, err error) {
	var invalid problems
	if len(n.PlanIDs) == 0 || len(n.PlanIDs) > MaxPlansPerSubscription {
		invalid.Add("planIds", "has to have 1 to %d plans", MaxPlansPerSubscription)
	}
	if len(n.PlanExternalIDs) != len(n.PlanIDs) {
		invalid.Add("planExternalIds", "has to have the planExternalId of each plan of planIds, in the same order")
	}
	invalid.unique("planIds", n.PlanIDs)
	invalid.status("status", n.Status)
	if n.Renewal != meter.Monthly && n.Renewal != meter.Yearly {
		invalid.Add("renewalStrategy", "has to be monthly or yearly")
	}
	invalid.text("region", n.Region, MaxExternalChars)
	invalid.text("customerKey", n.CustomerKey, MaxExternalChars)
	invalid.text("subscriptionExternalId", n.ExternalID, MaxExternalChars)
	invalid.text("customerExternalId", n.CustomerExternalID, MaxExternalChars)
	if n.ProductKey != "" {
		invalid.text("productKey", n.ProductKey, MaxExternalChars)
	}
	n.Anchor = invalid.date("quotaResetAnchor", n.Anchor)
	n.TrialStart, n.TrialEnd = invalid.date("trialStartDate", n.TrialStart), invalid.date("trialEndDate", n.TrialEnd)
	invalid.trial(n.TrialStart, n.TrialEnd)
	if n.TrialEndStatus != "" {
		invalid.status("trialEndStatus", n.TrialEndStatus)
	}
	if n.TrialEndStatus == Trialing {
		invalid.Add("trialEndStatus", "has to be another status than trialing")
	}
	metadata = invalid.metadata(n.Metadata)
	return metadata, invalid.Err()
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

// CreateSubscription creates a subscription. It returns Invalid for an invalid input, a plan of another bucket,
// and a bucket that already has MaxSubscriptions; NotFound for a bucket that is missing or invisible; and
// Conflict for an ExternalID in use, so that a purchase that is reported twice creates only one subscription.
func (s *Service) CreateSubscription(ctx context.Context, at BucketLocator, n NewSubscription) (Subscription, error) {
	metadata, err := n.check()
	if err != nil {
		return Subscription{}, err
	}
	now := s.now()
	r := record{
		ID: s.parts.IDs.Ordered("sbsc", 24), AccountID: at.AccountID, BucketID: at.Bucket, PlanIDs: n.PlanIDs,
		Status: n.Status, Renewal: n.Renewal,
		Region: n.Region, CustomerKey: n.CustomerKey, ExternalID: n.ExternalID, CustomerExternalID: n.CustomerExternalID,
		ProductKey: n.ProductKey,
		Anchor:     now, Metadata: metadata, TrialStart: n.TrialStart, TrialEnd: n.TrialEnd, TrialEndStatus: n.TrialEndStatus,
		CreatedOn: now, UpdatedOn: now, Version: 1,
	}
	if n.Anchor != nil {
		r.Anchor = *n.Anchor
	}
	r.OpenFrom = r.period(now).From
	var plans []planRecord
	err = s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		plans = make([]planRecord, len(n.PlanIDs))
		gets := make([]*store.ReadRequest, len(plans))
		for i, id := range n.PlanIDs {
			gets[i] = store.Get(planKey(at.Bucket, id), &plans[i]).Unchecked(plansUncheckedReason)
		}
		b, err := s.load(ctx, at, gets...)
		switch {
		case err != nil:
			return err
		case b.Subscriptions >= MaxSubscriptions:
			return errTooManySubscriptions
		}
		for i, p := range plans {
			switch {
			case !gets[i].Found:
				return fault.InvalidField(fmt.Sprintf("planIds[%d]", i), "is no plan of this metering bucket")
			case p.ExternalID != n.PlanExternalIDs[i]:
				return fault.InvalidField(fmt.Sprintf("planExternalIds[%d]", i),
					"is not the planExternalId of the plan in the same place of planIds")
			}
		}
		created := r
		created.applyPlanTerms(plans)
		created.schedule()
		writes := []store.Write{
			b.countWrite("subscriptions", 1, MaxSubscriptions),
			store.Create(created.key(), created),
			store.Create(subscriptionExternalKey(b.ID, r.ExternalID), pointer{ID: r.ID}).Else(errSubscriptionExternalIDInUse),
			store.Put(customerRowKey(b.ID, r.CustomerKey, r.ID), pointer{ID: r.ID}),
			audit.Record(ctx, r.resource()),
		}
		for _, p := range plans {
			writes = append(writes, p.countWrite(1))
		}
		if err := s.parts.Table.Commit(ctx, writes...); err != nil {
			return err
		}
		r = created
		return nil
	})
	if err != nil {
		return Subscription{}, err
	}
	return r.toSubscription(byID(plans), now), nil
}

const plansUncheckedReason = "the commit changes the plan's number of subscriptions and fails if the plan was " +
	"deleted, and the other fields of the plan may be slightly old"

func byID(plans []planRecord) map[string]planRecord {
	out := make(map[string]planRecord, len(plans))
	for _, p := range plans {
		out[p.ID] = p
	}
	return out
}

// plansOf returns the plans of subscriptions of a bucket, by their ids. The result has at most MaxPlans plans, because
// the bucket has no more.
func plansOf(ctx context.Context, table *store.Table, bucketID string, all []record) (map[string]planRecord, error) {
	found := map[string]*planRecord{}
	var gets []*store.ReadRequest
	for _, r := range all {
		for _, id := range r.PlanIDs {
			if found[id] == nil {
				found[id] = new(planRecord)
				gets = append(gets, store.Get(planKey(bucketID, id), found[id]).Unchecked(plansUncheckedReason))
			}
		}
	}
	out := make(map[string]planRecord, len(found))
	for chunk := range slices.Chunk(gets, store.MaxKeys) {
		if err := table.Load(ctx, chunk...); err != nil {
			return nil, fmt.Errorf("read the plans of subscriptions: %w", err)
		}
	}
	for id, p := range found {
		out[id] = *p
	}
	return out, nil
}

// ListSubscriptions returns a page of the bucket's subscriptions, the newest first, and
// their total number. It returns NotFound for a bucket that is missing or invisible.
func (s *Service) ListSubscriptions(ctx context.Context, at BucketLocator, page store.Page) (
	[]Subscription, int, error,
) {
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
		out[i] = r.toSubscription(plans, now)
	}
	return out, b.Subscriptions, nil
}

// ReadSubscription returns a subscription. It returns NotFound if the subscription is missing or invisible.
func (s *Service) ReadSubscription(ctx context.Context, at BucketLocator, id string) (Subscription, error) {
	_, r, err := s.loadSubscription(ctx, at, id)
	if err != nil {
		return Subscription{}, err
	}
	plans, err := plansOf(ctx, s.parts.Table, r.BucketID, []record{r})
	return r.toSubscription(plans, s.now()), err
}

func (s *Service) loadSubscription(ctx context.Context, at BucketLocator, id string) (bucketRecord, record, error) {
	var r record
	subscription := store.Get(subscriptionKey(at.Bucket, id), &r)
	b, err := s.load(ctx, at, subscription)
	if err == nil && !subscription.Found {
		err = errNoSubscription
	}
	if err != nil {
		return bucketRecord{}, record{}, err
	}
	return b, r, nil
}

// DeleteSubscription deletes a subscription with its history. No reader sees it after DeleteSubscription returns. A durable
// operation then removes the history. DeleteSubscription returns NotFound for a subscription that is missing or invisible.
func (s *Service) DeleteSubscription(ctx context.Context, at BucketLocator, id string) error {
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		b, r, err := s.loadSubscription(ctx, at, id)
		if err != nil {
			return err
		}
		writes := append(r.deleteWrites(), b.countWrite("subscriptions", -1, 0), audit.Record(ctx, r.resource()),
			operation.Create(operation.Start{
				ID: s.parts.IDs.Ordered("mop", 24), Kind: deleteHistory, Subject: r.ID, AccountID: r.AccountID,
				Input: removalInput{Subscription: r.ID},
			}, s.now()))
		for _, p := range r.PlanIDs {
			writes = append(writes, planRecord{BucketID: b.ID, ID: p}.countWrite(-1))
		}
		return s.parts.Table.Commit(ctx, writes...)
	})
}

// deleteWrites returns the writes that delete a subscription and the rows that refer to it. They fail with
// store.ErrStale if the subscription has changed since r was read.
func (r record) deleteWrites() []store.Write {
	return []store.Write{
		store.Delete(subscriptionExternalKey(r.BucketID, r.ExternalID)),
		store.Delete(customerRowKey(r.BucketID, r.CustomerKey, r.ID)),
		store.Delete(r.key()).If(store.Equal(store.At("version"), r.Version)).Else(store.ErrStale),
	}
}
