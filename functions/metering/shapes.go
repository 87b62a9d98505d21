package metering

import (
	"encoding/json"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	sharedmeter "github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// The functions in this file convert between the API's types and the service's types.

// periodic is the only type of subscription.
const periodic = "periodic"

func viewBucket(b metering.Bucket) bucket {
	return bucket{
		ID: b.ID, AccountName: b.Account, CreatedOn: api.Timestamp(b.CreatedOn),
		UpdatedOn: api.Timestamp(b.UpdatedOn),
	}
}

func (in *createPlanIn) terms() metering.Terms {
	t := metering.Terms{
		Label: in.Body.Label, ExternalID: in.Body.PlanExternalID, Meters: map[string]metering.Meter{},
		TrialDays: in.Body.TrialDays, TrialEndStatus: metering.Status(in.Body.TrialEndStatus),
		TrialCollectPayment: in.Body.IsTrialCollectPayment,
	}
	for key, m := range in.Body.Meters {
		t.Meters[key] = metering.Meter{Label: m.Label.Value, Max: m.Max}
	}
	return t
}

func (in *updatePlanIn) patch() metering.PlanPatch {
	p := metering.PlanPatch{
		Label: in.Body.Label, ExternalID: in.Body.PlanExternalID, TrialDays: in.Body.TrialDays.Patch(),
		TrialEndStatus: api.PatchWith(in.Body.TrialEndStatus, func(s string) metering.Status {
			return metering.Status(s)
		}),
		TrialCollectPayment: in.Body.IsTrialCollectPayment.Patch(),
	}
	if in.Body.Meters.Set && !in.Body.Meters.Null {
		p.Meters = map[string]metering.MeterPatch{}
		for key, m := range in.Body.Meters.Value {
			p.Meters[key] = metering.MeterPatch{Label: m.Label.Patch(), Max: m.Max}
		}
	}
	return p
}

func viewPlan(p metering.Plan) plan {
	out := plan{
		ID: p.ID, Label: p.Label, PlanExternalID: p.ExternalID, Meters: map[string]meter{}, TrialDays: p.TrialDays,
		TrialEndStatus: string(p.TrialEndStatus), IsTrialCollectPayment: p.TrialCollectPayment,
		HasSubscriptions: p.HasSubscriptions,
		CreatedOn:        api.Timestamp(p.CreatedOn), UpdatedOn: api.Timestamp(p.UpdatedOn),
	}
	for key, m := range p.Meters {
		out.Meters[key] = meter{Label: m.Label, Max: m.Max}
	}
	return out
}

func (in *createSubscriptionIn) subscription() metering.NewSubscription {
	return metering.NewSubscription{
		PlanIDs: in.Body.PlanIDs, PlanExternalIDs: in.Body.PlanExternalIDs, Status: metering.Status(in.Body.Status),
		Renewal: sharedmeter.Strategy(in.Body.RenewalStrategy), Region: in.Body.Region, CustomerKey: in.Body.CustomerKey,
		ExternalID: in.Body.SubscriptionExternalID, CustomerExternalID: in.Body.CustomerExternalID,
		ProductKey: in.Body.ProductKey,
		Anchor:     optionalTime(in.Body.QuotaResetAnchor), Metadata: json.RawMessage(in.Body.Metadata.Value),
		TrialStart: optionalTime(in.Body.TrialStartDate), TrialEnd: optionalTime(in.Body.TrialEndDate),
		TrialEndStatus: metering.Status(in.Body.TrialEndStatus),
	}
}

// optionalTime returns the time in an optional field of a body, or nil if the field is missing or null.
func optionalTime(o api.Optional[timestamp]) *time.Time {
	if !o.Set || o.Null {
		return nil
	}
	return &o.Value.Time
}

func (in *updateSubscriptionIn) patch() metering.SubscriptionPatch {
	p := metering.SubscriptionPatch{
		Status: metering.Status(in.Body.Status), Prorate: in.Body.Prorate,
		Metadata: api.PatchWith(in.Body.Metadata, func(m metadata) json.RawMessage { return json.RawMessage(m) }),
		TrialEnd: timePatch(in.Body.TrialEndDate),
	}
	if in.Body.PlanExternalIDs.Set && !in.Body.PlanExternalIDs.Null {
		p.PlanExternalIDs = api.Map(in.Body.PlanExternalIDs.Value, func(id planExternalID) string { return string(id) })
	}
	return p
}

func timePatch(o api.Optional[timestamp]) store.Patch[time.Time] {
	return api.PatchWith(o, func(t timestamp) time.Time { return t.Time })
}

func viewSubscription(s metering.Subscription) subscription {
	return subscription{
		ID: s.ID, PlanIDs: s.PlanIDs, PlanExternalIDs: s.PlanExternalIDs, QuotaResetAnchor: api.Timestamp(s.Anchor),
		NextBillingCycle: api.Timestamp(s.NextBillingCycle), Status: string(s.Status), Type: periodic,
		RenewalStrategy: string(s.Renewal),
		Region:          s.Region, CustomerKey: s.CustomerKey, SubscriptionExternalID: s.ExternalID,
		CustomerExternalID: s.CustomerExternalID,
		ProductKey:         s.ProductKey, Metadata: metadata(s.Metadata), TrialStartDate: optionalTimestamp(s.TrialStart),
		TrialEndDate:   optionalTimestamp(s.TrialEnd),
		TrialEndStatus: string(s.TrialEndStatus), CreatedOn: api.Timestamp(s.CreatedOn),
		UpdatedOn: api.Timestamp(s.UpdatedOn),
	}
}

func optionalTimestamp(t *time.Time) *string {
	if t == nil {
		return nil
	}
	return new(api.Timestamp(*t))
}
