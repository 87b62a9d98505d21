package environments

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const path = "/v1/environments"

// Group is the group of operations of this function. The order of the operations matters where a platform decodes the
// paths of requests. The branch in a decoded path can contain slashes. So configurations and localConfigurations, whose
// paths end in a fixed word, must precede read: the router could otherwise take the fixed word as the end of the
// branch.
var Group = api.Group{
	Name:        "environments",
	Title:       "Environments",
	Description: "What a project has for each branch, and what a developer's machine takes from it.",
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"deployment", "environments", "projects", "variables"},
		Writes: []store.KeyPrefix{"account-limits", "deployment", "environments", "projects"},
	},
	Operations: []api.AnyOperation{list, create, configurations, localConfigurations, read},
}

const nameNote = "It is named by its own name, which is its deployment's, or by its branch. A branch that several " +
	"projects have is a 409 " +
	"unless the query names the project."

var list = api.Operation[listIn, listOut]{
	ID: "EnvironmentsService_list", Method: http.MethodGet, Path: path,
	Summary:     "List the environments of a project",
	Description: "Those that the key sees: production first, then in the order of their branches.",
	Scope:       auth.Deployments.Read(),
	Invisible:   api.Invisible{Project: http.StatusNotFound, Environment: http.StatusOK},
	Errors:      []int{http.StatusNotFound},
	Uses:        []api.Use{api.Query},
}

var create = api.Operation[createIn, environmentOut]{
	ID: "EnvironmentsService_create", Method: http.MethodPost, Path: path,
	Summary: "Create the environment of a branch",
	Description: "Gives a branch its environment before anything is uploaded to it: its name, which is its " +
		"deployment's, is known from then on. " +
		"An upload makes the environment as well where there is none. The project has to exist.",
	Scope: auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "environment.create", Resources: []string{"environment"},
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.Query, api.UpdateItem, api.CheckItem},
}

var read = api.Operation[nameIn, environmentOut]{
	ID: "EnvironmentsService_read", Method: http.MethodGet, Path: path + "/{environmentName}",
	Summary: "Read an environment", Description: nameNote,
	Scope: auth.Deployments.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.Query, api.BatchGetItem},
}

var configurations = api.Operation[nameIn, configurationOut]{
	ID: "EnvironmentsService_configurations", Method: http.MethodGet, Path: path + "/{environmentName}/configurations",
	Summary:     "Read what a gateway of the environment is told of it",
	Description: "Which account, project and kind of environment it is, and where. " + nameNote,
	Scope:       auth.Deployments.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.Query, api.BatchGetItem},
}

var localConfigurations = api.Operation[nameIn, localOut]{
	ID: "EnvironmentsService_localConfigurations", Method: http.MethodGet,
	Path:    path + "/{environmentName}/local-configurations",
	Summary: "Read what a developer's machine takes from the environment",
	Description: "The configuration with one member more for each variable of the branch, a string. " +
		"A secret is there with the empty string: no key is shown its value. " + nameNote,
	Scope: auth.Variables.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound, http.StatusConflict},
	Uses:   []api.Use{api.Query, api.BatchGetItem, api.RootKey},
}

type listIn struct {
	AccountName string `query:"accountName" empty:"absent" maxLength:"256" doc:"The account; the key's own when it is not given, or empty."`
	ProjectName string `query:"projectName" required:"true" minLength:"1" maxLength:"256" doc:"The project."`
	api.Page
}

type listOut = api.Body[api.List[environment]]

type createIn struct {
	Body struct {
		AccountName     string `json:"accountName" maxLength:"256" doc:"The account."`
		ProjectName     string `json:"projectName" maxLength:"256" doc:"The project." example:"lime-fox"`
		BranchName      string `json:"branchName" minLength:"1" maxLength:"255" doc:"The branch; main, master and production are production." example:"main"`
		EnvironmentType string `json:"environmentType" enum:"production,preview" doc:"The kind of the environment, which has to be the branch's."`
	} `nameHint:"EnvironmentCreate"`
}

type nameIn struct {
	EnvironmentName string `path:"environmentName" slashes:"true" maxLength:"256" doc:"The environment's name, or its branch, such as feature/x: a URL has it percent-encoded, an argument of a tool as it is."`
	AccountName     string `query:"accountName" empty:"absent" maxLength:"256" doc:"The account; the key's own when it is not given, or empty."`
	ProjectName     string `query:"projectName" maxLength:"256" doc:"The project, for a branch that several have; all that the key sees when it is not given."`
}

type environmentOut = api.Body[environment]

type environment struct {
	Name            string `json:"name" doc:"Its deployment's name, unique in the installation."`
	CreatedOn       string `json:"createdOn" format:"date-time" doc:"When it was made."`
	AccountName     string `json:"accountName" doc:"Its account."`
	ProjectName     string `json:"projectName" doc:"Its project."`
	BranchName      string `json:"branchName" doc:"Its branch."`
	EnvironmentType string `json:"environmentType" enum:"production,preview,development" doc:"Its kind."`
}

type configurationOut = api.Body[configuration]

type configuration struct {
	AccountName          string `json:"accountName" doc:"The environment's account."`
	ProjectName          string `json:"projectName" doc:"Its project."`
	EnvironmentType      string `json:"environmentType" enum:"production,preview,development" doc:"Its kind."`
	SystemConfigurations string `json:"systemConfigurations" doc:"What the product itself needs to know, for tools of ours alone. It holds no secret."`
}

type localOut = api.Body[map[string]string]
