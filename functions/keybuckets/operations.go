package keybuckets

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	bucketsPath = "/v1/accounts/{accountName}/key-buckets"
	bucketPath  = bucketsPath + "/{bucketName}"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "keybuckets",
	Title:       "Key buckets",
	Description: "Groups of consumers. Each project has one for each kind of environment.",
	TableAccess: store.TableAccess{
		Reads:       []store.KeyPrefix{"bucket-id", "buckets"},
		Writes:      []store.KeyPrefix{"account-limits", "bucket-id", "buckets", "operation"},
		DryRunReads: []store.KeyPrefix{"consumers"},
	},
	Operations: []api.AnyOperation{list, create, read, update, remove},
}

var list = api.Operation[listIn, listOut]{
	ID: "ApiKeyBucketsService_list", Method: http.MethodGet, Path: bucketsPath,
	Summary:     "List key buckets",
	Description: "The key buckets of the account that the account key sees, in the order of their names.",
	Scope:       auth.KeyBuckets.Read(), Invisible: api.InvisibleOmitted,
	Limit:  api.KeysLimit,
	Errors: []int{http.StatusNotFound, http.StatusTooManyRequests},
	Uses:   []api.Use{api.Query},
}

var create = api.Operation[createIn, bucketOut]{
	ID: "ApiKeyBucketsService_create", Method: http.MethodPost, Path: bucketsPath,
	Summary: "Create a key bucket",
	Description: "The tags project and environmentType (PRODUCTION, PREVIEW or WORKING_COPY) place the bucket for good: " +
		"account keys that are limited to projects or environments see it accordingly, and gateways elsewhere do not " +
		"accept its keys. Such a key has to place the buckets it makes. " +
		"A name that ends in -production, -preview or -working-copy belongs to the project whose name stands before that, " +
		"and the bucket has to be placed there.",
	Scope: auth.KeyBuckets.Write(), Invisible: api.Invisible{
		Project:     http.StatusForbidden,
		Environment: http.StatusForbidden,
	},
	Audit: "key-bucket.create", Resources: []string{"key-bucket"},
	Limit:  api.KeysLimit,
	Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests},
	Uses:   []api.Use{api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.RootKey},
}

var read = api.Operation[bucketIn, bucketOut]{
	ID: "ApiKeyBucketsService_read", Method: http.MethodGet, Path: bucketPath,
	Summary:     "Read a key bucket",
	Description: "The answer includes the token that connects to the bucket.",
	Scope:       auth.KeyBuckets.Read(), Invisible: api.InvisibleNotFound,
	Limit:  api.KeysLimit,
	Errors: []int{http.StatusNotFound, http.StatusTooManyRequests},
	Uses:   []api.Use{api.GetItem, api.RootKey},
}

var update = api.Operation[updateIn, bucketOut]{
	ID: "ApiKeyBucketsService_update", Method: http.MethodPatch, Path: bucketPath,
	Summary: "Update a key bucket",
	Description: "A field that is given is replaced as a whole, null clears it, and what is not given stays. " +
		"New tags do not place the bucket anew.",
	Scope: auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "key-bucket.update", Resources: []string{"key-bucket"},
	Limit:  api.KeysLimit,
	Errors: []int{http.StatusNotFound, http.StatusTooManyRequests},
	Uses:   []api.Use{api.GetItem, api.UpdateItem},
}

var remove = api.Operation[bucketIn, api.NoContent]{
	ID: "ApiKeyBucketsService_delete", Method: http.MethodDelete, Path: bucketPath, Status: http.StatusNoContent,
	Summary: "Delete a key bucket",
	Description: "Its consumers, their managers and API keys are gone with it at once. Gateways refuse the keys within " +
		"a minute: a deployed route that checks keys by this bucket " +
		"answers 401 to all of them, and the gateway's log says why, until its project is deployed with another bucket.",
	Scope: auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "key-bucket.delete", Resources: []string{"key-bucket"},
	Limit:  api.KeysLimit,
	Errors: []int{http.StatusNotFound, http.StatusTooManyRequests},
	Uses:   []api.Use{api.GetItem, api.UpdateItem, api.DeleteItem, api.PutItem},
}

// BucketPath is embedded in the inputs of operations. It is exported because huma skips unexported embedded types.
type BucketPath struct {
	api.AccountPath
	BucketName string `path:"bucketName" maxLength:"256" doc:"The key bucket's name, or its id."`
}

type listIn struct {
	api.AccountPath
	api.Page
}

type listOut = api.Body[api.List[bucket]]

type createIn struct {
	api.AccountPath
	Body struct {
		Name          string                          `json:"name" pattern:"^[a-z0-9-]{5,128}$" patternDescription:"5 to 128 characters of a-z, 0-9 and -" doc:"The bucket's name, unique in the account." example:"partner-keys"`
		Description   api.Optional[string]            `json:"description" required:"false" maxLength:"1024" doc:"What it is for."`
		Tags          api.Optional[map[string]string] `json:"tags" required:"false" doc:"At most 20 pairs."`
		IsRetrievable api.Optional[bool]              `json:"isRetrievable" required:"false" doc:"Whether the text of its keys can be shown after their creation; true unless it is given."`
	} `nameHint:"KeyBucketCreate"`
}

type bucketIn struct {
	BucketPath
}

type updateIn struct {
	BucketPath
	Body struct {
		Description api.Optional[string]            `json:"description" required:"false" maxLength:"1024" doc:"What it is for."`
		Tags        api.Optional[map[string]string] `json:"tags" required:"false" doc:"At most 20 pairs, which replace all earlier ones."`
	} `nameHint:"KeyBucketUpdate"`
}

type bucketOut = api.Body[bucket]

type bucket struct {
	ID            string            `json:"id" doc:"The bucket's id." example:"bckt_8dK2mQ0pXv4Zt7Yh1Lc5Rb9Wn3Js6Fg0"`
	Name          string            `json:"name" doc:"The bucket's name."`
	Description   string            `json:"description,omitempty" doc:"What it is for."`
	Tags          map[string]string `json:"tags,omitempty" doc:"Its tags."`
	IsRetrievable bool              `json:"isRetrievable" doc:"Whether the text of its keys can be shown after their creation."`
	Token         string            `json:"token,omitempty" format:"password" doc:"What connects to the bucket. Only a single bucket that is read shows it."`
	CreatedOn     string            `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn     string            `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}
