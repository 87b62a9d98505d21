package metering

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

const (
	subscriptionsPath = bucketPath + "/subscriptions"
	subscriptionPath  = subscriptionsPath + "/{subscriptionId}"
)

var listSubscriptions = api.Operation[bucketListIn, subscriptionsOut]{
	ID: "MeteringSubscriptionsService_list", Method: http.MethodGet, Path: subscriptionsPath,
	Summary:     "List metering subscriptions",
	Description: "The newest first.",
	Scope:       auth.Metering.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors,
	Uses:   []api.Use{api.GetItem, api.BatchGetItem, api.Query},
}

var createSubscription = api.Operation[createSubscriptionIn, subscriptionOut]{
	ID: "MeteringSubscriptionsService_create", Method: http.MethodPost, Path: subscriptionsPath,
	Summary: "Create a metering subscription",
	Description: "subscriptionExternalId is unique in the metering bucket: a purchase that is told twice is a conflict, " +
		"and no second subscription. " +
		"Quotas begin anew with each month or year after quotaResetAnchor, at 00:00 UTC; the 31st is the last day of a " +
		"shorter month. A bucket has at most 1,000,000 subscriptions.",
	Scope: auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "subscription.create", Resources: []string{"subscription"},
	Errors: conflictErrors,
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.UpdateItem},
}

var readSubscription = api.Operation[subscriptionIn, subscriptionOut]{
	ID: "MeteringSubscriptionsService_read", Method: http.MethodGet, Path: subscriptionPath,
	Summary:     "Read a metering subscription",
	Description: "A trial that is over has its end status from that moment on.",
	Scope:       auth.Metering.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors,
	Uses:   []api.Use{api.BatchGetItem},
}

var updateSubscription = api.Operation[updateSubscriptionIn, subscriptionOut]{
	ID: "MeteringSubscriptionsService_update", Method: http.MethodPatch, Path: subscriptionPath,
	Summary: "Update a metering subscription",
	Description: "What is not given stays, and nothing else changes. planExternalIds are the plans from now on; prorate " +
		"is the part of their quotas that the current period has, " +
		"of the sum of all plans and rounded down. Without prorate it has the whole, as all later periods do. Gateways go " +
		"by it a few seconds later.",
	Scope: auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "subscription.update", Resources: []string{"subscription"},
	Errors: notFoundErrors,
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.UpdateItem, api.CheckItem},
}

var removeSubscription = api.Operation[subscriptionIn, api.NoContent]{
	ID: "MeteringSubscriptionsService_delete", Method: http.MethodDelete, Path: subscriptionPath,
	Status:      http.StatusNoContent,
	Summary:     "Delete a metering subscription",
	Description: "Its history is gone with it at once. To end it and keep that, set its status to canceled.",
	Scope:       auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "subscription.delete", Resources: []string{"subscription"},
	Errors: notFoundErrors,
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.UpdateItem, api.DeleteItem},
}

var readQuotas = api.Operation[quotasIn, quotasOut]{
	ID: "MeteringQuotasService_get", Method: http.MethodGet, Path: subscriptionPath + "/quotas",
	Summary: "Read what is left of a subscription's quotas",
	Description: "The units that are left of each meter in the current period: the sum over the subscription's plans " +
		"less what was used, never below 0. " +
		"With period, in the period of that instant, from the subscription's creation on. The header Gatewright-Period " +
		"says which period it is.",
	Scope: auth.Metering.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors,
	Uses:   []api.Use{api.BatchGetItem, api.GetItem},
}

type subscriptionsOut = api.Body[api.List[subscription]]

type createSubscriptionIn struct {
	BucketPath
	Body struct {
		PlanIDs                []string                `json:"planIds" minItems:"1" maxItems:"10" maxLength:"64" doc:"Its plans, of this metering bucket: 1 to 10."`
		PlanExternalIDs        []string                `json:"planExternalIds" minItems:"1" maxItems:"10" maxLength:"255" doc:"The planExternalId of each plan of planIds, in the same order."`
		QuotaResetAnchor       api.Optional[timestamp] `json:"quotaResetAnchor" required:"false" doc:"What periods are counted from, by its date in UTC; its creation unless it is given."`
		Status                 string                  `json:"status" enum:"active,inactive,incomplete,incomplete-expired,trialing,past-due,canceled,unpaid,paused" doc:"What it is."`
		Type                   string                  `json:"type" enum:"periodic" doc:"How it is renewed."`
		RenewalStrategy        string                  `json:"renewalStrategy" enum:"monthly,yearly" doc:"How long its periods are."`
		Region                 string                  `json:"region" enum:"us-central1,us-east1,europe-west4" doc:"Where it is sold. It is kept as it is."`
		CustomerKey            string                  `json:"customerKey" minLength:"1" maxLength:"255" doc:"By what a gateway knows the customer, such as a consumer's name."`
		SubscriptionExternalID string                  `json:"subscriptionExternalId" minLength:"1" maxLength:"255" doc:"What it is called where it is paid, unique in the bucket."`
		CustomerExternalID     string                  `json:"customerExternalId" minLength:"1" maxLength:"255" doc:"What the customer is called where it is paid."`
		ProductKey             string                  `json:"productKey" required:"false" minLength:"1" maxLength:"255" doc:"What is sold. It is kept as it is."`
		Metadata               api.Optional[metadata]  `json:"metadata" required:"false" doc:"Anything, at most 1024 bytes."`
		TrialStartDate         api.Optional[timestamp] `json:"trialStartDate" required:"false" doc:"When its trial begins; its creation unless it is given."`
		TrialEndDate           api.Optional[timestamp] `json:"trialEndDate" required:"false" doc:"When its trial is over; unless it is given, trialDays of its plan after the beginning, where a plan has any."`
		TrialEndStatus         string                  `json:"trialEndStatus" required:"false" enum:"active,inactive,incomplete,incomplete-expired,past-due,canceled,unpaid,paused" doc:"What it is after its trial; unless it is given, what its plan says, else canceled."`
	} `nameHint:"MeteringSubscriptionCreate"`
}

type updateSubscriptionIn struct {
	SubscriptionPath
	Body struct {
		PlanExternalIDs api.Optional[[]planExternalID] `json:"planExternalIds" required:"false" minItems:"1" maxItems:"10" doc:"The planExternalId of each plan from now on: 1 to 10."`
		Status          string                         `json:"status" required:"false" enum:"active,inactive,incomplete,incomplete-expired,trialing,past-due,canceled,unpaid,paused" doc:"What it is."`
		Prorate         *float64                       `json:"prorate" required:"false" minimum:"0" maximum:"1" doc:"The part of the quotas that the current period has." example:"0.75"`
		Metadata        api.Optional[metadata]         `json:"metadata" required:"false" doc:"Anything, at most 1024 bytes; it replaces the earlier one."`
		TrialEndDate    api.Optional[timestamp]        `json:"trialEndDate" required:"false" doc:"When its trial is over."`
	} `nameHint:"MeteringSubscriptionUpdate"`
}

// SubscriptionPath is the path of a subscription.
type SubscriptionPath struct {
	BucketPath
	SubscriptionID string `path:"subscriptionId" maxLength:"64" doc:"The subscription's id."`
}

type subscriptionIn struct {
	SubscriptionPath
}

type quotasIn struct {
	SubscriptionPath
	Period string `query:"period" maxLength:"64" format:"date-time" doc:"An instant of the period, the current one unless it is given." example:"2026-01-31T00:00:00Z"`
}

type quotasOut struct {
	Period string           `header:"Gatewright-Period" doc:"The period, from its beginning to its end, which is the next one's beginning." example:"2026-01-31T00:00:00Z/2026-02-28T00:00:00Z"`
	Body   map[string]int64 `nameHint:"MeteringQuotas"`
}

type subscriptionOut = api.Body[subscription]

type subscription struct {
	ID                     string   `json:"id" doc:"The subscription's id." example:"sbsc_5Gk2pR8wQz1Xv4Yt7Lh0Nc3B"`
	PlanIDs                []string `json:"planIds" nullable:"false" doc:"Its plans."`
	PlanExternalIDs        []string `json:"planExternalIds" nullable:"false" doc:"The planExternalId of each, in the same order."`
	QuotaResetAnchor       string   `json:"quotaResetAnchor" format:"date-time" doc:"What periods are counted from, by its date in UTC."`
	NextBillingCycle       string   `json:"nextBillingCycle" format:"date-time" doc:"When the current period ends and the next one begins."`
	Status                 string   `json:"status" enum:"active,inactive,incomplete,incomplete-expired,trialing,past-due,canceled,unpaid,paused" doc:"What it is now."`
	Type                   string   `json:"type" enum:"periodic" doc:"How it is renewed."`
	RenewalStrategy        string   `json:"renewalStrategy" enum:"monthly,yearly" doc:"How long its periods are."`
	Region                 string   `json:"region" enum:"us-central1,us-east1,europe-west4" doc:"Where it is sold."`
	CustomerKey            string   `json:"customerKey" doc:"By what a gateway knows the customer."`
	SubscriptionExternalID string   `json:"subscriptionExternalId" doc:"What it is called where it is paid."`
	CustomerExternalID     string   `json:"customerExternalId" doc:"What the customer is called where it is paid."`
	ProductKey             string   `json:"productKey,omitempty" doc:"What is sold."`
	Metadata               metadata `json:"metadata,omitempty" doc:"Anything."`
	TrialStartDate         *string  `json:"trialStartDate,omitempty" format:"date-time" doc:"When its trial begins."`
	TrialEndDate           *string  `json:"trialEndDate,omitempty" format:"date-time" doc:"When its trial is over."`
	TrialEndStatus         string   `json:"trialEndStatus,omitempty" enum:"active,inactive,incomplete,incomplete-expired,past-due,canceled,unpaid,paused" doc:"What it is after its trial."`
	CreatedOn              string   `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn              string   `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}

// metadata is a JSON object. Its text is not decoded, so that values such as large numbers are returned as the caller
// has written them.
type metadata json.RawMessage

// Schema implements huma.SchemaProvider.
func (metadata) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: true}
}

// MarshalJSON returns the text unchanged.
func (m metadata) MarshalJSON() ([]byte, error) { return json.RawMessage(m).MarshalJSON() }

// UnmarshalJSON keeps the text unchanged.
func (m *metadata) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(m).UnmarshalJSON(b) }

// planExternalID is the ID of a plan in the account's own system, which sells the plan to customers.
type planExternalID string

// Schema implements huma.SchemaProvider.
func (planExternalID) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, MinLength: new(1), MaxLength: new(metering.MaxExternalChars)}
}

// timestamp is an instant in a body (RFC 3339).
type timestamp struct{ time.Time }

// Schema implements huma.SchemaProvider.
func (timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}
