package consumers

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-json-experiment/json"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/keys"
)

const (
	managersPath = consumerPath + "/managers"
	managerPath  = managersPath + "/{managerId}"
)

var listManagers = api.Operation[listManagersIn, managersOut]{
	ID: "ApiKeyConsumerManagers_list", Method: http.MethodGet, Path: managersPath,
	Summary:     "List the managers of a consumer",
	Description: "The newest first.",
	Scope:       auth.KeyBuckets.Read(), Invisible: api.InvisibleNotFound,
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem},
}

var addManager = api.Operation[addManagerIn, managerOut]{
	ID: "ApiKeyConsumerManagers_create", Method: http.MethodPost, Path: managersPath,
	Summary:     "Add a manager to a consumer",
	Description: "An invite of the same address is taken up by it.",
	Scope:       auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "manager.create", Resources: []string{"manager", "consumer"},
	Limit:  api.KeysLimit,
	Errors: conflictErrors, Uses: []api.Use{api.BatchGetItem, api.UpdateItem},
}

var readManager = api.Operation[managerIn, personOut]{
	ID: "ApiKeyConsumerManagers_read", Method: http.MethodGet, Path: managerPath,
	Summary:     "Read a manager of a consumer",
	Description: "Takes the id of an invite too, which has no sub.",
	Scope:       auth.KeyBuckets.Read(), Invisible: api.InvisibleNotFound,
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem},
}

var removeManager = api.Operation[managerIn, api.NoContent]{
	ID: "ApiKeyConsumerManagers_delete", Method: http.MethodDelete, Path: managerPath, Status: http.StatusNoContent,
	Summary:     "Delete a manager of a consumer",
	Description: "Takes the id of an invite too, which withdraws it.",
	Scope:       auth.KeyBuckets.Write(), Invisible: api.InvisibleNotFound,
	Audit: "manager.delete", Resources: []string{"manager", "consumer"},
	Limit:  api.KeysLimit,
	Errors: notFoundErrors, Uses: []api.Use{api.BatchGetItem, api.UpdateItem, api.DeleteItem, api.CheckItem},
}

type listManagersIn struct {
	ConsumerPath
	api.Page
}

type managersOut = api.Body[api.List[manager]]

type addManagerIn struct {
	ConsumerPath
	Body struct {
		Email string `json:"email" maxLength:"254" doc:"The manager's address, unique in the consumer." example:"ada@example.com"`
		Sub   string `json:"sub" maxLength:"256" doc:"The manager's identity where managers sign in." example:"auth0|65f1"`
	} `nameHint:"ManagerCreate"`
}

type managerIn struct {
	ConsumerPath
	ManagerID string `path:"managerId" maxLength:"256" doc:"The id of a manager or an invite."`
}

type managerOut = api.Body[manager]

type manager struct {
	ID        string `json:"id" doc:"The manager's id." example:"eusr_5Gk2pR8wQz1Xv4Yt7Lh0Nc3B"`
	Email     string `json:"email" doc:"The manager's address."`
	Sub       string `json:"sub" doc:"The manager's identity where managers sign in."`
	CreatedOn string `json:"createdOn" format:"date-time" doc:"When the manager was added."`
}

type personOut = api.Body[person]

// person is a manager or an invite. An invite has no sub.
type person struct {
	ID        string  `json:"id" doc:"The id of the manager, or of the invite." example:"eusr_5Gk2pR8wQz1Xv4Yt7Lh0Nc3B"`
	Email     string  `json:"email" doc:"The address."`
	Sub       *string `json:"sub,omitempty" doc:"The manager's identity where managers sign in; an invite has none."`
	CreatedOn string  `json:"createdOn" format:"date-time" doc:"When the manager was added, or the invite was made."`
}

type invite struct {
	ID        string `json:"id" doc:"The invite's id."`
	Email     string `json:"email" doc:"The address."`
	CreatedOn string `json:"createdOn" format:"date-time" doc:"When it was made."`
}

// The maximum lengths of a manager's address and sub, in characters. The struct tags of addManagerIn have the same
// limits.
const maxEmailChars, maxSubChars = 254, 256

// newManager is an entry in the managers of a new consumer: the address of an invite, or a manager (contract 3.5).
type newManager keys.NewManager

// Schema implements huma.SchemaProvider.
func (newManager) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		{Type: huma.TypeString, Description: "An address to invite.", MaxLength: new(maxEmailChars)},
		{
			Type: huma.TypeObject, Description: "A manager.",
			Properties: map[string]*huma.Schema{
				"email": {Type: huma.TypeString, MaxLength: new(maxEmailChars)},
				"sub":   {Type: huma.TypeString, MaxLength: new(maxSubChars)},
			},
			Required: []string{"email", "sub"}, AdditionalProperties: true,
		},
	}}
}

// UnmarshalJSON decodes a string as the address of an invite, and an object as a manager.
func (m *newManager) UnmarshalJSON(b []byte) error {
	var email string
	if json.Unmarshal(b, &email) == nil {
		*m = newManager{Email: email, Invite: true}
		return nil
	}
	var object struct {
		Email string `json:"email"`
		Sub   string `json:"sub"`
	}
	if err := json.Unmarshal(b, &object); err != nil {
		return err
	}
	*m = newManager{Email: object.Email, Sub: object.Sub}
	return nil
}
