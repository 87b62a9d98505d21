package consumers

import (
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	keysPath = consumerPath + "/keys"
	keyPath  = keysPath + "/{keyId}"
)

const newKeyNote = "Leave key out to have one made: such a key is found by leak detection. " +
	"A key of your own has 16 to 256 printable ASCII characters, no space, and is unique in the installation. "

var listKeys = api.Operation[listKeysIn, keysOut]{
	ID: "ApiKeyKeysService_list", Method: http.MethodGet, Path: keysPath,
	Summary:     "List the API keys of a consumer",
	Description: "The newest first." + tagNote,
	Scope:       auth.KeyBuckets.Read(), Invisible: api.InvisibleNotFound,
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: readUses, Parameters: tagParameters,
}

var createKey = api.Operation[createKeyIn, keyOut]{
	ID: "ApiKeyKeysService_create", Method: http.MethodPost, Path: keysPath,
	Summary:     "Create an API key",
	Description: newKeyNote + "The answer shows the key in full." + tagNote,
	Scope:       auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "api-key.create", Resources: []string{"api-key", "consumer"},
	Limit:  api.KeysLimit,
	Errors: conflictErrors, Uses: []api.Use{api.BatchGetItem, api.UpdateItem, api.DeleteItem, api.RootKey},
	Parameters: tagParameters,
}

var createKeys = api.Operation[createKeysIn, createdKeysOut]{
	ID: "ApiKeyKeysService_bulkCreate", Method: http.MethodPost, Path: keysPath + "/$bulk",
	Summary: "Create many API keys",
	Description: "Up to 1000 keys, all of them or none, in the order of the request. " +
		newKeyNote + "The answer shows the keys in full." + tagNote,
	Scope: auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "api-key.bulk-create", Resources: []string{"consumer", "api-key"},
	Limit:  api.KeysLimit,
	Errors: conflictErrors, Uses: []api.Use{api.BatchGetItem, api.UpdateItem, api.DeleteItem, api.CheckItem, api.RootKey},
	Parameters: tagParameters,
}

var readKey = api.Operation[readKeyIn, keyOut]{
	ID: "ApiKeyKeysService_get", Method: http.MethodGet, Path: keyPath,
	Summary:     "Read an API key",
	Description: "The key itself is masked unless key-format says otherwise." + tagNote,
	Scope:       auth.KeyBuckets.Read(), Invisible: api.InvisibleNotFound,
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem, api.RootKey}, Parameters: tagParameters,
}

var updateKey = api.Operation[updateKeyIn, keyOut]{
	ID: "ApiKeyKeysService_update", Method: http.MethodPatch, Path: keyPath,
	Summary: "Update an API key",
	Description: "A field that is given is replaced, null clears it, and what is not given stays. " +
		"A new key ends the earlier one at once. The answer shows the key masked." + tagNote,
	Scope: auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "api-key.update", Resources: []string{"api-key", "consumer"},
	Limit:  api.KeysLimit,
	Errors: conflictErrors, Uses: []api.Use{api.BatchGetItem, api.UpdateItem, api.DeleteItem, api.CheckItem, api.RootKey},
	Parameters: tagParameters,
}

var removeKey = api.Operation[keyIn, api.NoContent]{
	ID: "ApiKeyKeysService_delete", Method: http.MethodDelete, Path: keyPath, Status: http.StatusNoContent,
	Summary:     "Delete an API key",
	Description: "It opens nothing any more, at once and for good." + tagNote,
	Scope:       auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "api-key.delete", Resources: []string{"api-key", "consumer"},
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem, api.UpdateItem, api.DeleteItem, api.CheckItem},
	Parameters: tagParameters,
}

// KeyPath is the path of an API key.
type KeyPath struct {
	ConsumerPath
	KeyID string `path:"keyId" maxLength:"256" doc:"The API key's id."`
}

type listKeysIn struct {
	ConsumerPath
	api.Page
	api.After
	KeyFormat
	TagQuery
}

type keysOut = api.Paged[api.CursorList[key]]

type createKeyIn struct {
	ConsumerPath
	TagQuery
	// Body is optional, because all of its fields are optional.
	Body *newKey
}

type createKeysIn struct {
	ConsumerPath
	TagQuery
	Body []newKey `minItems:"1" maxItems:"1000"`
}

// newKey contains the fields of a new key.
type newKey struct {
	ExpiresOn   api.Optional[timestamp] `json:"expiresOn" required:"false" doc:"When it expires; never unless it is given. May be past."`
	Description api.Optional[string]    `json:"description" required:"false" maxLength:"1024" doc:"What it is for."`
	Key         api.Optional[string]    `json:"key" required:"false" format:"password" maxLength:"256" doc:"A key of your own."`
}

type createdKeysOut = api.Body[createdKeys]

type createdKeys struct {
	Data []key `json:"data" doc:"The keys, in the order of the request."`
}

type readKeyIn struct {
	KeyPath
	KeyFormat
	TagQuery
}

type updateKeyIn struct {
	KeyPath
	TagQuery
	Body struct {
		ExpiresOn   api.Optional[timestamp] `json:"expiresOn" required:"false" doc:"When it expires; null for never."`
		Description api.Optional[string]    `json:"description" required:"false" maxLength:"1024" doc:"What it is for."`
		Key         api.Optional[string]    `json:"key" required:"false" format:"password" maxLength:"256" doc:"A key of your own in place of the earlier one."`
	} `nameHint:"KeyUpdate"`
}

type keyIn struct {
	KeyPath
	TagQuery
}

type keyOut = api.Body[key]

type key struct {
	ID          string  `json:"id" doc:"The key's id." example:"key_0VDpf4xpZMy03OCIoOSLIPh5"`
	Description string  `json:"description,omitempty" doc:"What it is for."`
	Key         string  `json:"key,omitempty" format:"password" doc:"The key, as far as it is shown."`
	ExpiresOn   *string `json:"expiresOn" format:"date-time" nullable:"true" doc:"When it expires, null for never."`
	CreatedOn   string  `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn   string  `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}

// timestamp is an instant in a body (RFC 3339).
type timestamp struct{ time.Time }

// Schema implements huma.SchemaProvider.
func (timestamp) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}
