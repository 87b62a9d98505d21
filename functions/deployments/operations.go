package deployments

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
)

const projectPath = "/v1/accounts/{accountName}/projects/{projectName}"

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "deployments",
	Title:       "Deployments",
	Description: "Sources are uploaded, built and served; a deployment is what the gateway serves for a branch.",
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{"buckets", "builds-begun", "deployment", "environments", "operation", "projects", "upload"},
		Writes: []store.KeyPrefix{
			"account-limits", "bucket-id", "buckets", "builds-begun", "deployment", "environments", "operation", "projects",
			"upload",
		},
	},
	Operations: []api.AnyOperation{
		sources, sourceURL, projectSources, status, source, list, read, routes, remove, removeFromProject, redeploy, rollback,
		history,
	},
}

var uploadUses = []api.Use{api.BatchGetItem, api.Query, api.UpdateItem, api.CheckItem, api.RootKey, api.PresignUpload}

const uploadNote = "The address takes one PUT of a gzip'd tar archive within 15 minutes, of at most 100 MiB. " +
	"The id in the answer is the statusId under which the build is followed. " +
	"The project, its environment and its key buckets are made when they do not exist."

var sources = api.Operation[sourcesIn, uploadOut]{
	ID: "DeployService_sources", Method: http.MethodPost, Path: "/v1/deployments/sources",
	Summary: "Get an upload address for a branch", Description: uploadNote,
	Scope: auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "source.create", Resources: []string{"source", "project", "environment"},
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: uploadUses,
}

var sourceURL = api.Operation[sourceURLIn, uploadOut]{
	ID: "DeployService_sourceUrl", Method: http.MethodPost, Path: "/v1/deployments/source-url",
	Summary: "Get an upload address for an environment", Description: uploadNote,
	Scope: auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "source.create", Resources: []string{"source", "project", "environment"},
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: uploadUses,
}

var projectSources = api.Operation[projectSourcesIn, uploadOut]{
	ID: "DeployService_projectSources", Method: http.MethodPost, Path: projectPath + "/sources",
	Summary:     "Get an upload address for a project",
	Description: "The earlier form of the operation: it deploys the branch main. " + uploadNote,
	Scope:       auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "source.create", Resources: []string{"source", "project", "environment"},
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: uploadUses,
}

var status = api.Operation[statusIn, statusOut]{
	ID: "V1_deploymentStatus", Method: http.MethodGet, Path: projectPath + "/deployment-status/{statusId}",
	Summary:     "Follow a build",
	Description: "IN_PROGRESS from the moment the upload address is given out, then SUCCESS or ERROR for good.",
	Scope:       auth.Deployments.Read(), Invisible: api.InvisibleNotFound,
	Polled: true,
	Errors: []int{http.StatusNotFound}, Uses: []api.Use{api.BatchGetItem},
}

var source = api.Operation[sourceIn, sourceOut]{
	ID: "DeployService_source", Method: http.MethodGet, Path: projectPath + "/deployment-status/{statusId}/source",
	Summary: "Read the sources of a build around a place",
	Description: "What a finding of the build's status is about, of a failed build too: at most 256 KiB of a file of " +
		"the project's configuration, in whole lines where they are short. " +
		"Sources are there for a day after the build's end, and as long as its status, 30 days, where it is served or can " +
		"be returned to.",
	Scope: auth.Deployments.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound}, Uses: []api.Use{api.BatchGetItem, api.ReadSource, api.ListObjects},
}

var list = api.Operation[listIn, listOut]{
	ID: "DeploymentsService_list", Method: http.MethodGet, Path: projectPath + "/deployments",
	Summary:     "List the deployments of a project",
	Description: "Production first, then the newest first.",
	Scope:       auth.Deployments.Read(),
	Invisible:   api.Invisible{Project: http.StatusNotFound, Environment: http.StatusOK},
	Errors:      []int{http.StatusNotFound}, Uses: []api.Use{api.BatchGetItem, api.Query},
}

var read = api.Operation[nameIn, deploymentOut]{
	ID: "DeploymentsService_read", Method: http.MethodGet, Path: "/v1/deployments/{deploymentName}",
	Summary:     "Read a deployment",
	Description: "What the gateway serves under this name, and for which branch.",
	Scope:       auth.Deployments.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
}

var routes = api.Operation[routesIn, routesOut]{
	ID: "DeploymentsService_routes", Method: http.MethodGet, Path: "/v1/deployments/{deploymentName}/routes",
	Summary: "List the routes that a deployment serves",
	Description: "In the order of the project's files, paths and methods, each with its handler and the policies that a " +
		"request passes; none before the first build has succeeded.",
	Scope: auth.Deployments.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: []api.Use{api.RootKey, api.ReadArtifact},
}

const removeNote = "The gateway stops serving it at once; what it leaves behind is cleaned up afterwards. Refused " +
	"while custom domains lead to it."

var remove = api.Operation[nameIn, api.NoContent]{
	ID: "DeploymentsService_delete", Method: http.MethodDelete, Path: "/v1/deployments/{deploymentName}",
	Summary: "Delete a deployment", Description: removeNote,
	Scope: auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "deployment.delete", Resources: []string{"deployment"},
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: []api.Use{api.UpdateItem, api.DeleteItem},
}

var removeFromProject = api.Operation[projectNameIn, api.NoContent]{
	ID: "DeploymentsService_deleteFromProject", Method: http.MethodDelete,
	Path:    projectPath + "/deployments/{deploymentName}",
	Summary: "Delete a deployment of a project", Description: removeNote,
	Scope: auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "deployment.delete", Resources: []string{"deployment"},
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: []api.Use{api.UpdateItem, api.DeleteItem},
}

var redeploy = api.Operation[nameIn, redeployOut]{
	ID: "DeployService_redeploy", Method: http.MethodPost, Path: "/v1/deployments/{deploymentName}/deploy",
	Summary: "Deploy the stored sources again",
	Description: "Builds the newest accepted sources of the deployment once more, so that new values of variables " +
		"take effect.",
	Scope: auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "deployment.redeploy", Replaces: true, Resources: []string{"deployment", "source"},
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: []api.Use{api.BatchGetItem, api.Query, api.UpdateItem},
}

var rollback = api.Operation[rollbackIn, deploymentOut]{
	ID: "DeploymentsService_rollback", Method: http.MethodPost, Path: "/v1/deployments/{deploymentName}/rollback",
	Summary: "Serve an earlier build again",
	Description: "What was built then is served again, within seconds and without a build: the values of variables are " +
		"those of then. Builds that were begun before the rollback are not served any more when they end, those begun " +
		"after it are. " +
		"The last 5 builds served before the live one can be returned to.",
	Scope: auth.Deployments.Write(), Invisible: api.InvisibleNotFound,
	Audit: "deployment.rollback", Replaces: true, Resources: []string{"deployment"},
	Errors: []int{http.StatusNotFound, http.StatusConflict}, Uses: []api.Use{api.UpdateItem},
}

var history = api.Operation[historyIn, historyOut]{
	ID: "DeploymentsService_history", Method: http.MethodGet, Path: "/v1/deployments/{deploymentName}/history",
	Summary: "List the builds that a deployment has served",
	Description: "The live one, then the previous ones, at most 5, to which a rollback can return, the last served " +
		"first, then at most 20 that are gone: their artifacts and sources are removed a day later.",
	Scope: auth.Deployments.Read(), Invisible: api.InvisibleNotFound,
	Errors: []int{http.StatusNotFound},
}

type sourcesIn struct {
	Body struct {
		AccountName string `json:"accountName" maxLength:"256" doc:"The account."`
		ProjectName string `json:"projectName" maxLength:"256" doc:"The project." example:"lime-fox"`
		BranchName  string `json:"branchName" minLength:"1" maxLength:"255" doc:"The branch; main, master and production are production." example:"main"`
	} `nameHint:"SourcesRequest"`
}

type sourceURLIn struct {
	Body struct {
		AccountName   string `json:"accountName" maxLength:"256" doc:"The account."`
		ProjectName   string `json:"projectName" maxLength:"256" doc:"The project."`
		Environment   string `json:"environment,omitempty" maxLength:"255" doc:"The branch. One of environment and branchName is needed."`
		BranchName    string `json:"branchName,omitempty" maxLength:"255" doc:"The branch, under its other name."`
		RepositoryURL string `json:"repositoryUrl,omitempty" maxLength:"2048" doc:"Where the sources come from, for people."`
		SHA           string `json:"sha,omitempty" maxLength:"64" doc:"The commit, for people."`
	} `nameHint:"SourceUrlRequest"`
}

type projectSourcesIn struct {
	api.ProjectPath
}

type uploadOut = api.Body[upload]

type upload struct {
	UploadURL    string `json:"uploadUrl" format:"password" doc:"Where to PUT the archive. Its last path segment is the statusId."`
	DeploymentID string `json:"deploymentId" format:"uuid" doc:"The statusId."`
}

type statusIn struct {
	api.ProjectPath
	StatusID string `path:"statusId" uuid:"true" maxLength:"256" doc:"The UUID of the uploaded sources, in either case."`
}

type statusOut = api.Body[deploymentStatus]

type deploymentStatus struct {
	Status      string          `json:"status" enum:"SUCCESS,ERROR,IN_PROGRESS" doc:"What has become of the upload."`
	URL         string          `json:"url" doc:"The deployment's public address, empty until SUCCESS."`
	LogURL      string          `json:"logUrl,omitempty" format:"uri" doc:"Where to read what went wrong, for ERROR: this status, with its steps and findings."`
	BuildID     string          `json:"buildId,omitempty" doc:"The build's id, once there is a build."`
	Steps       map[string]step `json:"steps" doc:"The build's steps by name: download, validate, build, deploy."`
	BuildResult buildResult     `json:"buildResult" doc:"What the build says of the sources."`
}

type step struct {
	Status     string `json:"status" enum:"IN_PROGRESS,SUCCESS,ERROR" doc:"How the step goes."`
	StartedOn  string `json:"startedOn,omitempty" format:"date-time" doc:"When it began."`
	FinishedOn string `json:"finishedOn,omitempty" format:"date-time" doc:"When it ended."`
	Message    string `json:"message,omitempty" doc:"What made it fail, or begin again."`
}

type buildResult struct {
	BuildID  string    `json:"buildId,omitempty" doc:"The build's id, once there is a build."`
	Errors   []finding `json:"errors" doc:"Everything that has to be mended."`
	Warnings []finding `json:"warnings" doc:"What is probably not meant."`
}

type finding struct {
	File    string `json:"file" doc:"The file in the archive."`
	Path    string `json:"path" doc:"A JSON pointer into the file."`
	Line    int    `json:"line,omitempty" minimum:"1" doc:"The line where that begins, from 1. It is left out without a place in a file." example:"35"`
	Column  int    `json:"column,omitempty" minimum:"1" doc:"The column where that begins: the character of the line, from 1." example:"13"`
	Message string `json:"message" doc:"What to do."`
}

type sourceIn struct {
	api.ProjectPath
	StatusID string `path:"statusId" uuid:"true" maxLength:"256" doc:"The UUID of the uploaded sources, in either case."`
	File     string `query:"file" required:"true" minLength:"1" maxLength:"512" doc:"The file, as a finding names it." example:"config/routes.oas.json"`
	Line     int    `query:"line" minimum:"1" default:"1" doc:"A line that the answer holds. A number beyond the file's end is its last one."`
	Column   int    `query:"column" minimum:"1" default:"1" doc:"The place in the line, in characters: for lines that are longer than what is answered."`
}

type sourceOut = api.Body[excerpt]

type excerpt struct {
	File        string `json:"file" doc:"The file."`
	StartLine   int    `json:"startLine" minimum:"1" doc:"The line in which the text begins."`
	StartColumn int    `json:"startColumn" minimum:"1" doc:"The character of the line with which the text begins."`
	Text        string `json:"text" doc:"What the file has from there on. Bytes that are no UTF-8 are U+FFFD."`
	MoreBefore  bool   `json:"moreBefore" doc:"Whether the file has more before it."`
	MoreAfter   bool   `json:"moreAfter" doc:"Whether the file has more behind it."`
}

type routesIn struct {
	DeploymentName string `path:"deploymentName" maxLength:"256" doc:"The deployment's name: the first label of its host name."`
	api.Page
}

type routesOut = api.Body[api.List[route]]

type route struct {
	Method      string        `json:"method" doc:"The method of requests." example:"GET"`
	Path        string        `json:"path" doc:"The path, as the project writes it." example:"/todos/{id}"`
	PathMode    string        `json:"pathMode" enum:"open-api,url-pattern" doc:"How the path is matched."`
	OperationID string        `json:"operationId,omitempty" doc:"The operation's id in the OpenAPI document."`
	Handler     string        `json:"handler" doc:"What answers: the handler's export." example:"urlForwardHandler"`
	Policies    []routePolicy `json:"policies" doc:"What a request passes, in the order in which it does: the inbound ones, then, behind the handler, the outbound ones. At most 100 are shown."`
	CORSPolicy  string        `json:"corsPolicy" doc:"none, anything-goes or one of the project's."`
	GraphQL     bool          `json:"graphql" doc:"Whether it takes GraphQL."`
	File        string        `json:"file" doc:"The file of the project that declares it."`
	Pointer     string        `json:"pointer" doc:"A JSON pointer into the file."`
}

type routePolicy struct {
	Name       string `json:"name" doc:"Its name in the project."`
	PolicyType string `json:"policyType" doc:"What it does." example:"api-key-inbound"`
	Direction  string `json:"direction" enum:"inbound,outbound" doc:"Whether it is before the handler or behind it."`
}

type listIn struct {
	api.ProjectPath
	api.Page
}

type listOut = api.Body[api.List[deployment]]

type nameIn struct {
	DeploymentName string `path:"deploymentName" maxLength:"256" doc:"The deployment's name: the first label of its host name."`
}

type projectNameIn struct {
	api.ProjectPath
	DeploymentName string `path:"deploymentName" maxLength:"256" doc:"The deployment's name: the first label of its host name."`
}

type rollbackIn struct {
	DeploymentName string `path:"deploymentName" maxLength:"256" doc:"The deployment's name: the first label of its host name."`
	Body           *rollbackTo
}

type rollbackTo struct {
	To string `json:"to,omitempty" format:"uuid" maxLength:"36" doc:"The buildId to return to; the one served before when it is not given."`
}

type historyIn struct {
	DeploymentName string `path:"deploymentName" maxLength:"256" doc:"The deployment's name: the first label of its host name."`
	api.Page
}

type historyOut = api.Body[api.List[pastBuild]]

type pastBuild struct {
	BuildID   string `json:"buildId" format:"uuid" doc:"The build's id."`
	CreatedOn string `json:"createdOn" format:"date-time" doc:"When it was first served."`
	SHA       string `json:"sha,omitempty" doc:"The commit that the sources were said to be of."`
	State     string `json:"state" enum:"live,previous,gone" doc:"Whether it is served, can be returned to, or is removed."`
}

type deploymentOut = api.Body[deployment]

type redeployOut = api.Body[redeployResult]

type redeployResult struct {
	Status       string `json:"status" doc:"That it was asked for."`
	DeploymentID string `json:"deploymentId" format:"uuid" doc:"The statusId under which this build is followed."`
}

type deployment struct {
	Name            string `json:"name" doc:"Unique in the installation; the first label of its host name."`
	URL             string `json:"url" format:"uri" doc:"Its public address."`
	Label           string `json:"label" doc:"The branch, as it stands in the name."`
	URLParameter    string `json:"urlParameter" doc:"The same as label."`
	LoggingID       string `json:"loggingId" doc:"What its logs are found under."`
	AccountName     string `json:"accountName" doc:"Its account."`
	ProjectName     string `json:"projectName" doc:"Its project."`
	BranchName      string `json:"branchName" doc:"The branch that it serves."`
	EnvironmentType string `json:"environmentType" enum:"PRODUCTION,PREVIEW,WORKING_COPY" doc:"The kind of its environment."`
	State           string `json:"state" enum:"STARTED,BUILDING,FAILED,STOPPED" doc:"STARTED while it is served."`
	Message         string `json:"message" doc:"Always empty."`
	CreatedOn       string `json:"createdOn" format:"date-time" doc:"When it was made."`
	UpdatedOn       string `json:"updatedOn" format:"date-time" doc:"When it was last changed."`
}
