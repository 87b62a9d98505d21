package accountkeys

import (
	"net/http"
	"time"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const (
	keysPath = "/v1/accounts/{accountName}/account-keys"
	keyPath  = keysPath + "/{accountKeyId}"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "accountkeys",
	Title:       "Account keys",
	Description: "Keys that open this API. A key never changes: make another one, and revoke it.",
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"account-keys"},
		Writes: []store.KeyPrefix{"account-limits"},
	},
	Operations: []api.AnyOperation{list, create, remove},
}

var list = api.Operation[listIn, listOut]{
	ID: "AccountKeysService_list", Method: http.MethodGet, Path: keysPath,
	Summary: "List the keys of an account",
	Description: "The newest first: the caller's own key, and those that may no more than it does. A key itself is " +
		"never shown. " +
		"One that has expired stays in the list for 30 days, one that is revoked is gone at once.",
	Scope: auth.AccountKeys.Read(), Invisible: api.InvisibleOmitted,
	Errors: []int{http.StatusNotFound}, Uses: []api.Use{api.Query},
}

var create = api.Operation[createIn, createdOut]{
	ID: "AccountKeysService_create", Method: http.MethodPost, Path: keysPath, Status: http.StatusCreated,
	Summary: "Create an account key",
	Description: "The answer shows the key, this once. A key makes none that may more than itself, or for longer: " +
		"its scopes, projects and environments hold those of the new key, which ends no later.",
	Scope: auth.AccountKeys.Write(), Invisible: api.Invisible{
		Project:     http.StatusForbidden,
		Environment: http.StatusForbidden,
	},
	Audit: "account-key.create", Resources: []string{"account-key"},
	Errors: []int{http.StatusNotFound}, Uses: []api.Use{api.Query, api.PutItem, api.UpdateItem, api.CheckItem},
}

var remove = api.Operation[removeIn, api.NoContent]{
	ID: "AccountKeysService_delete", Method: http.MethodDelete, Path: keyPath, Status: http.StatusNoContent,
	Summary: "Revoke an account key",
	Description: "It is refused everywhere within a minute. A key revokes itself, and those that may no more " +
		"than it does. " +
		"The last key of the account that may everything takes force=true.",
	Scope: auth.AccountKeys.Write(), Invisible: api.InvisibleNotFound,
	Audit: "account-key.delete", Resources: []string{"account-key"},
	Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusTooManyRequests},
	Uses:   []api.Use{api.GetItem, api.Query, api.CheckItem, api.DeleteItem},
}

type listIn struct {
	api.AccountPath
	api.Page
}

type listOut = api.Body[api.List[AccountKey]]

type createIn struct {
	api.AccountPath
	Body struct {
		Label        string                  `json:"label" minLength:"1" maxLength:"128" doc:"A name for people, at most 128 bytes." example:"ci"`
		ExpiresOn    api.Optional[timestamp] `json:"expiresOn" required:"false" doc:"When it stops working; never unless it is given."`
		Scopes       api.Names               `json:"scopes" doc:"What it may do: all, or a list of RESOURCE:read and RESOURCE:write, which holds read. All are those to come too." example:"[\"deployments:write\"]"`
		Projects     api.Names               `json:"projects" required:"false" doc:"The projects that it reaches: all, which is also what is not given, or a list of names."`
		Environments kindNames               `json:"environments" required:"false" maxItems:"3" doc:"The kinds of environment that it reaches; all unless they are given."`
		Confirm      bool                    `json:"confirmDestructive" required:"false" doc:"Whether a person has to confirm, in their MCP client, what the key is used for there and removes or replaces something."`
	} `nameHint:"AccountKeyCreate"`
}

type createdOut = api.Body[createdKey]

type removeIn struct {
	api.AccountPath
	AccountKeyID string `path:"accountKeyId" maxLength:"256" doc:"The key's id."`
	Force        bool   `query:"force" doc:"Whether to revoke the last key that may everything."`
}

// AccountKey is a key in responses, without its text. It is exported because huma skips unexported embedded types.
type AccountKey struct {
	ID           string    `json:"id" doc:"The key's id." example:"akey_0VDpf4xpZMy03OCIoOSLIPh5"`
	Label        string    `json:"label" doc:"Its name for people."`
	CreatedOn    string    `json:"createdOn" format:"date-time" doc:"When it was made."`
	ExpiresOn    *string   `json:"expiresOn" format:"date-time" nullable:"true" doc:"When it stops working, null for never."`
	LastUsedOn   *string   `json:"lastUsedOn" format:"date" nullable:"true" doc:"The day (UTC) on which it was last used, null for never."`
	Scopes       api.Names `json:"scopes" doc:"What it may do: all, or a list."`
	Projects     api.Names `json:"projects" doc:"The projects that it reaches: all, or a list of names."`
	Environments []string  `json:"environments" doc:"The kinds of environment that it reaches."`
	Confirm      bool      `json:"confirmDestructive,omitempty" doc:"Whether a person has to confirm, in their MCP client, what the key is used for there and removes or replaces something; absent where not."`
}

type createdKey struct {
	AccountKey
	Key string `json:"key" format:"password" doc:"The key itself. It is shown here and never again."`
}

// timestamp is an instant in a body (RFC 3339).
type timestamp struct{ time.Time }
