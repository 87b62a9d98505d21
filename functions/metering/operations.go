package metering

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	bucketsPath = "/v1/metering"
	bucketPath  = bucketsPath + "/{bucketId}"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "metering",
	Title:       "Metering",
	Description: "What an account sells by the unit: plans with quotas, and the subscriptions of its customers to them.",
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{
			"metering-bucket", "metering-bucket-count", "metering-history", "metering-plan", "metering-plan-external",
			"metering-subscription",
		},
		Writes: []store.KeyPrefix{
			"metering-bucket", "metering-bucket-count", "metering-customer", "metering-plan", "metering-plan-external",
			"metering-subscription", "metering-subscription-external", "operation",
		},
	},
	Operations: []api.AnyOperation{
		listBuckets, createBucket, readBucket, removeBucket,
		listPlans, createPlan, readPlan, updatePlan, removePlan,
		listSubscriptions, createSubscription, readSubscription, updateSubscription, removeSubscription,
		readQuotas,
	},
}

var (
	notFoundErrors = []int{http.StatusNotFound}
	conflictErrors = []int{http.StatusNotFound, http.StatusConflict}
)

var listBuckets = api.Operation[listBucketsIn, bucketsOut]{
	ID: "MeteringBucketsService_list", Method: http.MethodGet, Path: bucketsPath,
	Summary: "List metering buckets",
	Description: "Those of the account of the account key, the newest first. An account key that is limited to some " +
		"projects or environments sees none.",
	Scope: auth.Metering.Read(), Invisible: api.InvisibleOmitted,
	Uses: []api.Use{api.Query},
}

var createBucket = api.Operation[createBucketIn, bucketOut]{
	ID: "MeteringBucketsService_create", Method: http.MethodPost, Path: bucketsPath,
	Summary: "Create a metering bucket",
	Description: "It takes no body. An account has at most 100. Account keys that are limited to some projects or " +
		"environments may not make one.",
	Scope: auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "metering-bucket.create", Resources: []string{"metering-bucket"},
	Errors: notFoundErrors,
	Uses:   []api.Use{api.BatchGetItem, api.PutItem, api.UpdateItem},
}

var readBucket = api.Operation[bucketIn, bucketOut]{
	ID: "MeteringBucketsService_read", Method: http.MethodGet, Path: bucketPath,
	Summary:     "Read a metering bucket",
	Description: "When it was made, and whose it is: its plans and subscriptions are lists of their own.",
	Scope:       auth.Metering.Read(), Invisible: api.InvisibleNotFound,
	Errors: notFoundErrors,
	Uses:   []api.Use{api.GetItem},
}

var removeBucket = api.Operation[bucketIn, api.NoContent]{
	ID: "MeteringBucketsService_delete", Method: http.MethodDelete, Path: bucketPath, Status: http.StatusNoContent,
	Summary: "Delete a metering bucket",
	Description: "Its plans, subscriptions and their history are gone with it at once. Gateways refuse its customers a " +
		"few seconds later.",
	Scope: auth.Metering.Write(), Invisible: api.InvisibleNotFound,
	Audit: "metering-bucket.delete", Resources: []string{"metering-bucket"},
	Errors: notFoundErrors,
	Uses:   []api.Use{api.GetItem, api.PutItem, api.UpdateItem, api.DeleteItem},
}

type listBucketsIn struct {
	api.Page
}

type bucketsOut = api.Body[api.List[bucket]]

type createBucketIn struct{}

// BucketPath is embedded in the inputs of operations. It is exported because huma skips unexported embedded types.
type BucketPath struct {
	BucketID string `path:"bucketId" maxLength:"64" doc:"The metering bucket's id."`
}

type bucketIn struct {
	BucketPath
}

type bucketOut = api.Body[bucket]

type bucket struct {
	ID          string `json:"id" doc:"The bucket's id." example:"mtr_5Gk2pR8wQz1Xv4Yt7Lh0Nc3B"`
	AccountName string `json:"accountName" doc:"Whose it is."`
	CreatedOn   string `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn   string `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}
