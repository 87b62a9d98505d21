package metering

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	plansPath = bucketPath + "/plans"
	planPath  = plansPath + "/{planId}"
)

var listPlans = api.Operation[bucketListIn, plansOut]{
	ID: "MeteringPlansService_list", Method: http.MethodGet, Path: plansPath,
	Summary:     "List metering plans",
	Description: "The newest first.",
	Scope:       auth.Metering.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors,
	Uses:   []api.Use{api.GetItem, api.Query},
}

var createPlan = api.Operation[createPlanIn, planOut]{
	ID: "MeteringPlansService_create", Method: http.MethodPost, Path: plansPath,
	Summary: "Create a metering plan",
	Description: "planExternalId is unique in the metering bucket, which has at most 100 plans. A plan has at " +
		"most 50 meters.",
	Scope: auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "plan.create", Resources: []string{"plan"},
	Errors: conflictErrors,
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem},
}

var readPlan = api.Operation[planIn, planOut]{
	ID: "MeteringPlansService_read", Method: http.MethodGet, Path: planPath,
	Summary:     "Read a metering plan",
	Description: "With its meters, and whether any subscription is to it.",
	Scope:       auth.Metering.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors,
	Uses:   []api.Use{api.BatchGetItem},
}

var updatePlan = api.Operation[updatePlanIn, planOut]{
	ID: "MeteringPlansService_update", Method: http.MethodPatch, Path: planPath,
	Summary: "Update a metering plan",
	Description: "What is not given stays. meters replaces all meters; one that the plan has already keeps what is not " +
		"given of it, so that max may be left out. " +
		"What a meter has counts for the plan's subscriptions at once, in the current period too; trialDays and " +
		"trialEndStatus for those that are made later.",
	Scope: auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "plan.update", Resources: []string{"plan"},
	Errors: conflictErrors,
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.DeleteItem, api.CheckItem},
}

var removePlan = api.Operation[planIn, api.NoContent]{
	ID: "MeteringPlansService_delete", Method: http.MethodDelete, Path: planPath, Status: http.StatusNoContent,
	Summary:     "Delete a metering plan",
	Description: "One that has subscriptions is a conflict.",
	Scope:       auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "plan.delete", Resources: []string{"plan"},
	Errors: conflictErrors,
	Uses:   []api.Use{api.BatchGetItem, api.UpdateItem, api.DeleteItem},
}

type bucketListIn struct {
	BucketPath
	api.Page
}

type plansOut = api.Body[api.List[plan]]

type createPlanIn struct {
	BucketPath
	Body struct {
		Label                 string              `json:"label" minLength:"1" maxLength:"120" doc:"What people call it." example:"Pro"`
		PlanExternalID        string              `json:"planExternalId" minLength:"1" maxLength:"255" doc:"What it is called where it is sold, unique in the bucket." example:"price_pro"`
		Meters                map[string]newMeter `json:"meters" doc:"What it has of each meter: at most 50, by keys of 1 to 64 of the characters a-z, A-Z, 0-9, _, . and -, such as requests."`
		TrialDays             int                 `json:"trialDays" required:"false" minimum:"0" maximum:"3650" doc:"How many days a trial of it has."`
		TrialEndStatus        string              `json:"trialEndStatus" required:"false" enum:"paused,canceled" doc:"What a subscription is after its trial, where it does not say so itself."`
		IsTrialCollectPayment *bool               `json:"isTrialCollectPayment" required:"false" doc:"Kept for who takes payments: whether a trial asks for a means of payment."`
	} `nameHint:"MeteringPlanCreate"`
}

type newMeter struct {
	Label api.Optional[string] `json:"label" required:"false" minLength:"1" maxLength:"120" doc:"What people call it."`
	Max   int64                `json:"max" minimum:"0" maximum:"9007199254740991" doc:"How many units a period has: a whole number."`
}

type updatePlanIn struct {
	PlanPath
	Body struct {
		Label                 *string                              `json:"label" required:"false" minLength:"1" maxLength:"120" doc:"What people call it."`
		PlanExternalID        *string                              `json:"planExternalId" required:"false" minLength:"1" maxLength:"255" doc:"What it is called where it is sold."`
		Meters                api.Optional[map[string]meterChange] `json:"meters" required:"false" doc:"All meters from now on."`
		TrialDays             api.Optional[int]                    `json:"trialDays" required:"false" minimum:"0" maximum:"3650" doc:"How many days a trial of it has; null for none."`
		TrialEndStatus        api.Optional[string]                 `json:"trialEndStatus" required:"false" enum:"paused,canceled" doc:"What a subscription is after its trial; null leaves it to the subscription."`
		IsTrialCollectPayment api.Optional[bool]                   `json:"isTrialCollectPayment" required:"false" doc:"Kept for who takes payments."`
	} `nameHint:"MeteringPlanUpdate"`
}

type meterChange struct {
	Label api.Optional[string] `json:"label" required:"false" minLength:"1" maxLength:"120" doc:"What people call it; null for nothing."`
	Max   *int64               `json:"max" required:"false" minimum:"0" maximum:"9007199254740991" doc:"How many units a period has. A meter that the plan does not have yet needs it."`
}

// PlanPath is the path of a plan.
type PlanPath struct {
	BucketPath
	PlanID string `path:"planId" maxLength:"64" doc:"The plan's id."`
}

type planIn struct {
	PlanPath
}

type planOut = api.Body[plan]

type plan struct {
	ID                    string           `json:"id" doc:"The plan's id." example:"plan_5Gk2pR8wQz1Xv4Yt7Lh0Nc3B"`
	Label                 string           `json:"label" doc:"What people call it."`
	PlanExternalID        string           `json:"planExternalId" doc:"What it is called where it is sold."`
	Meters                map[string]meter `json:"meters" doc:"What it has of each meter."`
	TrialDays             int              `json:"trialDays,omitempty" doc:"How many days a trial of it has."`
	TrialEndStatus        string           `json:"trialEndStatus,omitempty" enum:"paused,canceled" doc:"What a subscription is after its trial, where it does not say so itself."`
	IsTrialCollectPayment *bool            `json:"isTrialCollectPayment,omitempty" doc:"Whether a trial asks for a means of payment."`
	HasSubscriptions      bool             `json:"hasSubscriptions" doc:"Whether any subscription is of it: then it cannot be deleted."`
	CreatedOn             string           `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn             string           `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}

type meter struct {
	Label string `json:"label,omitempty" doc:"What people call it."`
	Max   int64  `json:"max" doc:"How many units a period has."`
}
