package projects

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "projects",
	Title:       "Projects",
	Description: "What is deployed: a project has one environment for each branch.",
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"buckets", "operation", "projects"},
		Writes: []store.KeyPrefix{"account-limits", "bucket-id", "buckets", "operation", "projects"},
		DryRunReads: []store.KeyPrefix{
			"consumers", "deployment", "environments", "mtls-certificate", "variable-count",
			"variables",
		},
	},
	Operations: []api.AnyOperation{list, create, read, remove, deletion},
}

var list = api.Operation[listIn, listOut]{
	ID: "ProjectsService_list", Method: http.MethodGet, Path: "/v1/projects",
	Summary:     "List projects",
	Description: "The projects of an account that the key sees, in the order of their names.",
	Scope:       auth.Projects.Read(), Invisible: api.InvisibleOmitted,
	Errors: []int{http.StatusNotFound},
	Uses:   []api.Use{api.Query},
}

var create = api.Operation[createIn, projectOut]{
	ID: "ProjectsService_create", Method: http.MethodPost, Path: "/v1/projects",
	Summary: "Create a project",
	Description: "Makes a project with its three key buckets, one for each kind of environment. " +
		"A name that is in use or not allowed is a 422: choose another and repeat. " +
		"A bucket of such a name that is placed elsewhere is a 409.",
	Scope: auth.Projects.Write(), Invisible: api.Invisible{Project: http.StatusForbidden, Environment: http.StatusOK},
	Audit: "project.create", Resources: []string{"project"},
	Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity},
	Uses:   []api.Use{api.BatchGetItem, api.Query, api.UpdateItem, api.CheckItem, api.RootKey},
}

const path = "/v1/accounts/{accountName}/projects/{projectName}"

var read = api.Operation[projectIn, projectOut]{
	ID: "ProjectsService_read", Method: http.MethodGet, Path: path,
	Summary:     "Read a project",
	Description: "One that is being deleted is not found.",
	Scope:       auth.Projects.Read(), Invisible: api.Invisible{Project: http.StatusNotFound, Environment: http.StatusOK},
	Errors: []int{http.StatusNotFound},
}

var remove = api.Operation[projectIn, deletionOut]{
	ID: "ProjectsService_delete", Method: http.MethodDelete, Path: path,
	Summary: "Delete a project with all that is in it",
	Description: "Begins an operation that stops its deployments and removes them with its environments, variables and " +
		"own key buckets, " +
		"with their consumers and keys. From then on the project takes nothing new, and its name is free when the " +
		"operation has ended. " +
		"Uploads and what was built of them are gone ten minutes later. " +
		"It takes a key of all kinds of environment. Refused while custom domains lead to one of its deployments.",
	Scope:     auth.Projects.Write(),
	Invisible: api.Invisible{Project: http.StatusNotFound, Environment: http.StatusForbidden},
	Audit:     "project.delete", Resources: []string{"project"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.UpdateItem},
}

var deletion = api.Operation[deletionIn, deletionOut]{
	ID: "ProjectsService_operation", Method: http.MethodGet, Path: path + "/operations/{operationId}",
	Summary:     "Follow the deletion of a project",
	Description: "It can be read for 30 days after its end, when the project is long gone.",
	Scope:       auth.Projects.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
}

type projectIn struct{ api.ProjectPath }

type deletionIn struct {
	api.ProjectPath
	OperationID string `path:"operationId" maxLength:"256" doc:"The operation's id."`
}

type deletionOut = api.Body[operation]

type operation struct {
	ID      string `json:"id" doc:"Under which the operation is followed."`
	Status  string `json:"status" enum:"in-progress,success,error" doc:"How it goes. The last two are final."`
	Message string `json:"message" doc:"The same in a sentence."`
}

type listIn struct {
	AccountName string `query:"accountName" empty:"absent" maxLength:"256" doc:"The account; the key's own when it is not given, or empty."`
	api.Page
}

type listOut = api.Body[api.List[project]]

type createIn struct {
	AccountName string `query:"accountName" empty:"absent" maxLength:"256" doc:"The account; the key's own when it is not given, or empty."`
	Body        struct {
		// There is no pattern here: the service checks the name, so that the response to an invalid name is 422 and not
		// 400.
		Name string `json:"name" maxLength:"1024" doc:"Lower-case letters, digits and hyphens, at most 63; neither first nor last a hyphen." example:"lime-fox"`
	} `nameHint:"ProjectCreate"`
}

type projectOut = api.Body[project]

type project struct {
	ID          string `json:"id" doc:"The project's id."`
	Name        string `json:"name" doc:"The project's name."`
	AccountName string `json:"accountName" doc:"The account it belongs to."`
	Type        string `json:"type" doc:"How its gateway is run." enum:"managed-edge,managed-dedicated,self-hosted"`
	ProductType string `json:"productType" doc:"What it is." enum:"api-gateway"`
	CreatedOn   string `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn   string `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}
