package variables

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const path = "/v1/accounts/{accountName}/projects/{projectName}/branches/{branchName}/variables"

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "variables",
	Title:       "Variables",
	Description: "Named values of a project's branch, which its builds put into its configuration.",
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"projects", "variables"},
		Writes: []store.KeyPrefix{"projects", "variable-count", "variables"},
	},
	Operations: []api.AnyOperation{list, create, read, update, remove},
}

var list = api.Operation[listIn, listOut]{
	ID: "VariablesService_list", Method: http.MethodGet, Path: path,
	Summary:     "List the environment variables of a branch",
	Description: "In the order of their names, at most 100. The values of secrets are empty.",
	Scope:       auth.Variables.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.Query, api.RootKey},
}

var create = api.Operation[createIn, variableOut]{
	ID: "VariablesService_create", Method: http.MethodPost, Path: path, Status: http.StatusCreated,
	Summary: "Create an environment variable",
	Description: "The variable takes effect with the branch's next build. A branch has at most 100 variables, " +
		"and need not " +
		"have been deployed yet. Names that begin with GATEWRIGHT_ are reserved, apart from GATEWRIGHT_PUBLIC_.",
	Scope: auth.Variables.Write(), Invisible: api.InvisibleNotFound,
	Audit: "variable.create", Resources: []string{"variable"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.CheckItem, api.UpdateItem, api.RootKey},
}

var read = api.Operation[variableIn, variableOut]{
	ID: "VariablesService_read", Method: http.MethodGet, Path: path + "/{variableName}",
	Summary:     "Read an environment variable",
	Description: "The value of a secret is empty.",
	Scope:       auth.Variables.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.RootKey},
}

var update = api.Operation[updateIn, variableOut]{
	ID: "VariablesService_update", Method: http.MethodPatch, Path: path + "/{variableName}",
	Summary:     "Change the value of an environment variable",
	Description: "The new value takes effect with the branch's next build. Without a value nothing changes.",
	Scope:       auth.Variables.Write(), Invisible: api.InvisibleNotFound,
	Audit: "variable.update", Resources: []string{"variable"},
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.UpdateItem, api.CheckItem, api.RootKey},
}

var remove = api.Operation[variableIn, api.NoContent]{
	ID: "VariablesService_delete", Method: http.MethodDelete, Path: path + "/{variableName}", Status: http.StatusNoContent,
	Summary:     "Delete an environment variable",
	Description: "The branch's next build is made without it. What is served keeps the value that it was built with.",
	Scope:       auth.Variables.Write(), Invisible: api.InvisibleNotFound,
	Audit: "variable.delete", Resources: []string{"variable"},
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.DeleteItem, api.UpdateItem},
}

// BranchPath is the path of the branch to which variables belong. In a request, the branch is percent-encoded
// (feature%2Fx). BranchName is decoded. BranchPath is embedded in the inputs of operations. It is exported because huma
// skips unexported embedded types.
type BranchPath struct {
	api.ProjectPath
	BranchName string `path:"branchName" slashes:"true" maxLength:"255" doc:"The branch, such as feature/x: a URL has it percent-encoded, an argument of a tool as it is."`
}

type listIn struct {
	BranchPath
	api.Page
}

type listOut = api.Body[api.List[variable]]

// VariablePath is embedded in the inputs of the operations on one variable.
type VariablePath struct {
	BranchPath
	VariableName string `path:"variableName" maxLength:"256" doc:"The variable's name."`
}

type variableIn struct{ VariablePath }

type createIn struct {
	BranchPath
	Body struct {
		Name     string `json:"name" pattern:"^[A-Z][A-Z0-9_]*$" patternDescription:"a letter, then letters, digits and _, all in upper case" maxLength:"256" doc:"SCREAMING_SNAKE_CASE, unique on the branch." example:"UPSTREAM_URL"`
		IsSecret bool   `json:"isSecret" doc:"Whether the value is never to be shown again. It can't be changed."`
		Value    string `json:"value" format:"password" maxLength:"5120" doc:"The value, at most 5120 bytes of UTF-8."`
	} `nameHint:"VariableCreate"`
}

type updateIn struct {
	VariablePath
	Body struct {
		Value *string `json:"value,omitempty" format:"password" maxLength:"5120" doc:"The new value, at most 5120 bytes of UTF-8."`
	} `nameHint:"VariableUpdate"`
}

type variableOut = api.Body[variable]

type variable struct {
	Name      string `json:"name" doc:"The variable's name."`
	Branch    string `json:"branch" doc:"The branch it belongs to."`
	IsSecret  bool   `json:"isSecret" doc:"Whether its value is never shown."`
	Value     string `json:"value" doc:"Its value, empty for a secret."`
	CreatedOn string `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn string `json:"updatedOn" format:"date-time" doc:"When its value was last changed."`
}
