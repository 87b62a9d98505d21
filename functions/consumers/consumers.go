package consumers

import (
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	consumersPath = "/v1/accounts/{accountName}/key-buckets/{bucketName}/consumers"
	consumerPath  = consumersPath + "/{consumerName}"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "consumers",
	Title:       "Consumers",
	Description: "Who calls an API: consumers with their API keys and the people who manage them.",
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{
			"bucket-id", "buckets", "consumer-by", "consumer-count", "consumer-id", "consumer-keys", "consumers", "key-hash",
		},
		Writes: []store.KeyPrefix{
			"account-limits", "buckets", "consumer-by", "consumer-count", "consumer-id", "consumer-keys", "consumers",
			"key-batch",
			"key-hash", "operation",
		},
	},
	Operations: []api.AnyOperation{
		list, create, read, update, remove, roll,
		listKeys, createKey, createKeys, readKey, updateKey, removeKey,
		listManagers, addManager, readManager, removeManager,
	},
}

// Uses and errors that several operations have. Every operation accepts the ID of a bucket or consumer instead of the
// name, and makes an additional read for an ID.
var (
	readUses       = []api.Use{api.BatchGetItem, api.Query, api.RootKey}
	notFoundErrors = []int{http.StatusNotFound, http.StatusTooManyRequests}
	conflictErrors = []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests}
	tagParameters  = []*huma.Param{tagParameter()}
)

const tagNote = " With tag.<property>=<value>, a consumer without that tag is answered as one that does not exist."

var list = api.Operation[listIn, listOut]{
	ID: "ApiKeyConsumersService_list", Method: http.MethodGet, Path: consumersPath,
	Summary: "List consumers",
	Description: "In the order of their names. Keys, managers and invites are left out unless they are asked for; " +
		"of each consumer's keys the newest 100 are included.",
	Scope: auth.KeyBuckets.Read(), Invisible: api.InvisibleNotFound,
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: readUses, Parameters: tagParameters,
}

var create = api.Operation[createIn, consumerOut]{
	ID: "ApiKeyConsumersService_create", Method: http.MethodPost, Path: consumersPath,
	Summary:     "Create a consumer",
	Description: "With with-api-key=true the consumer gets an API key, which the answer shows in full.",
	Scope:       auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "consumer.create", Resources: []string{"consumer", "api-key"},
	Limit:  api.KeysLimit,
	Errors: conflictErrors, Uses: []api.Use{api.BatchGetItem, api.Query, api.UpdateItem, api.RootKey},
}

var read = api.Operation[readIn, consumerOut]{
	ID: "ApiKeyConsumersService_read", Method: http.MethodGet, Path: consumerPath,
	Summary:     "Read a consumer",
	Description: "Its keys (the newest 100), managers and invites are left out unless they are asked for." + tagNote,
	Scope:       auth.KeyBuckets.Read(), Invisible: api.InvisibleNotFound,
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: readUses, Parameters: tagParameters,
}

var update = api.Operation[updateIn, consumerOut]{
	ID: "ApiKeyConsumersService_update", Method: http.MethodPatch, Path: consumerPath,
	Summary: "Update a consumer",
	Description: "A field that is given is replaced as a whole, null clears it, and what is not given stays. " +
		"New metadata reaches the gateway with the next check of each key." + tagNote,
	Scope: auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "consumer.update", Resources: []string{"consumer"},
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem, api.Query, api.UpdateItem, api.DeleteItem, api.CheckItem},
	Parameters: tagParameters,
}

var remove = api.Operation[consumerIn, api.NoContent]{
	ID: "ApiKeyConsumersService_delete", Method: http.MethodDelete, Path: consumerPath, Status: http.StatusNoContent,
	Summary:     "Delete a consumer",
	Description: "Its managers and API keys are gone with it at once." + tagNote,
	Scope:       auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "consumer.delete", Resources: []string{"consumer"},
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem, api.Query, api.UpdateItem, api.DeleteItem, api.CheckItem},
	Parameters: tagParameters,
}

var roll = api.Operation[rollIn, api.NoContent]{
	ID: "ApiKeyConsumersService_rollKey", Method: http.MethodPost, Path: consumerPath + "/roll-key",
	Status:  http.StatusNoContent,
	Summary: "Roll the keys of a consumer",
	Description: "Gives expiresOn to every API key of the consumer that has no expiry, and makes one new key " +
		"without an expiry: " +
		"the first in the list of keys." + tagNote,
	Scope: auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "consumer.roll-key", Replaces: true, Resources: []string{"consumer", "api-key"},
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem, api.Query, api.UpdateItem, api.CheckItem, api.RootKey},
	Parameters: tagParameters,
}

// BucketPath is the path of a key bucket. It is embedded in the inputs of operations, like the other exported types of
// this package. They are exported because huma skips unexported embedded types.
type BucketPath struct {
	api.AccountPath
	BucketName string `path:"bucketName" maxLength:"256" doc:"The key bucket's name, or its id."`
}

// ConsumerPath is the path of a consumer.
type ConsumerPath struct {
	BucketPath
	ConsumerName string `path:"consumerName" maxLength:"256" doc:"The consumer's name, or its id."`
}

// KeyFormat is the query parameter that selects how much of a key's text is shown.
type KeyFormat struct {
	KeyFormat string `query:"key-format" enum:"none,visible,masked" default:"masked" doc:"How much of an API key is shown: nothing, all, or its last 8 characters. A bucket that does not keep the texts shows those at most, and so does a tool that is called without revealSecrets."`
}

// IncludeQuery selects what a response includes in addition to the consumers, and the format of their keys.
type IncludeQuery struct {
	APIKeys        bool `query:"include-api-keys" doc:"Include API keys."`
	Managers       bool `query:"include-managers" doc:"Include managers."`
	ManagerInvites bool `query:"include-manager-invites" doc:"Include invites of managers."`
	KeyFormat
}

type listIn struct {
	BucketPath
	api.Page
	api.After
	IncludeQuery
	NamePrefix   string `query:"name-prefix" pattern:"^[a-z0-9_-]{1,128}$" patternDescription:"1 to 128 characters of a-z, 0-9, _ and -" doc:"Only consumers whose names begin with it."`
	ManagerEmail string `query:"manager-email" maxLength:"254" doc:"Only consumers with a manager or an invite of this address, in any case of letters."`
	TagQuery
}

type listOut = api.Paged[api.CursorList[consumer]]

type createIn struct {
	BucketPath
	WithAPIKey bool `query:"with-api-key" doc:"Make an API key too."`
	Body       struct {
		Name        string                          `json:"name" pattern:"^[a-z0-9_-]{1,128}$" patternDescription:"1 to 128 characters of a-z, 0-9, _ and -" doc:"The consumer's name, unique in the bucket; the user's sub in the gateway." example:"acme-mobile"`
		Description api.Optional[string]            `json:"description" required:"false" maxLength:"1024" doc:"Who it is."`
		Tags        api.Optional[map[string]string] `json:"tags" required:"false" doc:"At most 5 pairs, for management alone."`
		Metadata    api.Optional[metadata]          `json:"metadata" required:"false" doc:"The user's data in the gateway, at most 1024 bytes."`
		Managers    api.Optional[[]newManager]      `json:"managers" required:"false" maxItems:"50" doc:"At most 50: addresses to invite, or managers."`
	} `nameHint:"ConsumerCreate"`
}

type readIn struct {
	ConsumerPath
	IncludeQuery
	TagQuery
}

type updateIn struct {
	ConsumerPath
	TagQuery
	Body struct {
		Description api.Optional[string]            `json:"description" required:"false" maxLength:"1024" doc:"Who it is."`
		Tags        api.Optional[map[string]string] `json:"tags" required:"false" doc:"At most 5 pairs, which replace all earlier ones."`
		Metadata    api.Optional[metadata]          `json:"metadata" required:"false" doc:"The user's data in the gateway, at most 1024 bytes; it replaces the earlier one."`
	} `nameHint:"ConsumerUpdate"`
}

type consumerIn struct {
	ConsumerPath
	TagQuery
}

type rollIn struct {
	ConsumerPath
	TagQuery
	Body struct {
		ExpiresOn timestamp `json:"expiresOn" doc:"When the keys that have no expiry expire. A past time ends them at once."`
	} `nameHint:"KeyRoll"`
}

type consumerOut = api.Body[consumer]

type consumer struct {
	ID             string            `json:"id" doc:"The consumer's id." example:"csmr_5Gk2pR8wQz1Xv4Yt7Lh0Nc3B"`
	Name           string            `json:"name" doc:"The consumer's name."`
	Description    string            `json:"description,omitempty" doc:"Who it is."`
	Tags           map[string]string `json:"tags,omitempty" doc:"Its tags."`
	Metadata       metadata          `json:"metadata,omitempty" doc:"The user's data in the gateway."`
	APIKeys        *[]key            `json:"apiKeys,omitempty" doc:"Its API keys, the newest first."`
	Managers       *[]manager        `json:"managers,omitempty" doc:"Its managers, the newest first."`
	ManagerInvites *[]invite         `json:"managerInvites,omitempty" doc:"Its invites of managers, the newest first."`
	CreatedOn      string            `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn      string            `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
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
