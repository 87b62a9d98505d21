package deployments

import (
	"context"
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/inspection"
	"github.com/gatewright/gatewright/shared/resource/upstreamcerts"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	service := deployments.Open(p)
	h := handlers{service, inspection.Open(p, service), upstreamcerts.Open(p, nil)}
	return []api.Route{
		sources.HandledBy(h.sources), sourceURL.HandledBy(h.sourceURL), projectSources.HandledBy(h.projectSources),
		status.HandledBy(h.status),
		source.HandledBy(h.source), list.HandledBy(h.list), read.HandledBy(h.read), routes.HandledBy(h.routes),
		remove.HandledBy(h.remove), removeFromProject.HandledBy(h.removeFromProject), redeploy.HandledBy(h.redeploy),
		rollback.HandledBy(h.rollback), history.HandledBy(h.history),
	}
}

type handlers struct {
	service      *deployments.Service
	inspector    *inspection.Service
	certificates *upstreamcerts.Service
}

func (h handlers) sources(ctx context.Context, in *sourcesIn) (*uploadOut, error) {
	return h.issueUpload(ctx, in.Body.AccountName,
		deployments.UploadLocator{Project: in.Body.ProjectName, Branch: in.Body.BranchName})
}

func (h handlers) sourceURL(ctx context.Context, in *sourceURLIn) (*uploadOut, error) {
	locator := deployments.UploadLocator{
		Project: in.Body.ProjectName, Branch: in.Body.BranchName, RepositoryURL: in.Body.RepositoryURL, SHA: in.Body.SHA,
	}
	switch {
	case in.Body.Environment != "":
		locator.Branch = in.Body.Environment
		out, err := h.issueUpload(ctx, in.Body.AccountName, locator)
		return out, fault.RenameField(err, "branchName", "environment")
	case locator.Branch == "":
		return nil, fault.InvalidField("environment", "name the branch here or in branchName")
	}
	return h.issueUpload(ctx, in.Body.AccountName, locator)
}

// defaultBranch is the branch for the operation projectSources, whose requests do not name a branch.
const defaultBranch = "main"

func (h handlers) projectSources(ctx context.Context, in *projectSourcesIn) (*uploadOut, error) {
	return h.issueUpload(ctx, in.AccountName, deployments.UploadLocator{Project: in.ProjectName, Branch: defaultBranch})
}

func (h handlers) issueUpload(
	ctx context.Context, account string, locator deployments.UploadLocator,
) (*uploadOut, error) {
	locator.Owner = auth.OwnerFrom(ctx)
	if account != locator.Account {
		return nil, fault.Missing("account")
	}
	return api.Respond(viewUpload)(h.service.IssueUpload(ctx, locator))
}

func (h handlers) status(ctx context.Context, in *statusIn) (*statusOut, error) {
	show := func(s deployments.Status) deploymentStatus { return viewStatus(s, api.RequestURL(ctx)) }
	return api.Respond(show)(h.service.ReadStatus(ctx, deployments.StatusLocator{
		Owner: auth.OwnerFrom(ctx), Project: in.ProjectName, StatusID: in.StatusID,
	}))
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondSlice(in.Page, viewDeployment)(h.service.ListDeployments(ctx, auth.OwnerFrom(ctx), in.ProjectName))
}

func (h handlers) read(ctx context.Context, in *nameIn) (*deploymentOut, error) {
	return api.Respond(viewDeployment)(h.service.ReadDeployment(ctx, in.locator(ctx)))
}

func (h handlers) remove(ctx context.Context, in *nameIn) (*api.NoContent, error) {
	return h.deleteDeployment(ctx, in.locator(ctx))
}

func (h handlers) removeFromProject(ctx context.Context, in *projectNameIn) (*api.NoContent, error) {
	return h.deleteDeployment(ctx, deployments.DeploymentLocator{
		Owner: auth.OwnerFrom(ctx), Deployment: in.DeploymentName,
		Project: in.ProjectName,
	})
}

// deleteDeployment deletes a deployment. The response is 200 without a body (contract 2.10). The handler must return an
// output, because huma responds to a nil output with 204.
func (h handlers) deleteDeployment(ctx context.Context, locator deployments.DeploymentLocator) (*api.NoContent, error) {
	return &api.NoContent{}, h.service.DeleteDeployment(ctx, locator)
}

func (h handlers) redeploy(ctx context.Context, in *nameIn) (*redeployOut, error) {
	return api.Respond(viewRedeploy)(h.service.Redeploy(ctx, in.locator(ctx)))
}

func (h handlers) rollback(ctx context.Context, in *rollbackIn) (*deploymentOut, error) {
	target := ""
	if in.Body != nil {
		target = strings.ToLower(in.Body.To)
	}
	return api.Respond(viewDeployment)(h.service.Rollback(ctx, nameIn{in.DeploymentName}.locator(ctx), target,
		h.certificates))
}

func (h handlers) history(ctx context.Context, in *historyIn) (*historyOut, error) {
	return api.RespondSlice(in.Page, viewPastBuild)(h.service.History(ctx, nameIn{in.DeploymentName}.locator(ctx)))
}

func (h handlers) source(ctx context.Context, in *sourceIn) (*sourceOut, error) {
	return api.Respond(func(e project.Excerpt) excerpt {
		return excerpt{
			File: in.File, StartLine: e.Line, StartColumn: e.Column, Text: e.Text, MoreBefore: e.Before,
			MoreAfter: e.After,
		}
	})(h.inspector.ReadSource(ctx, inspection.SourceLocator{
		StatusLocator: deployments.StatusLocator{Owner: auth.OwnerFrom(ctx), Project: in.ProjectName, StatusID: in.StatusID},
		File:          in.File, Line: in.Line, Column: in.Column,
	}))
}

func (h handlers) routes(ctx context.Context, in *routesIn) (*routesOut, error) {
	served, err := h.inspector.Served(ctx, nameIn{in.DeploymentName}.locator(ctx))
	return api.RespondSlice(in.Page, func(r project.Route) route {
		return viewRoute(r, served.Policies)
	})(served.Routes, err)
}

// maxShownPolicies is the maximum number of policies of a route in a response. A route can have more.
const maxShownPolicies = 100

func viewRoute(r project.Route, policies map[string]project.Policy) route {
	out := route{
		Method: r.Method, Path: r.Path, PathMode: string(r.PathMode), OperationID: r.OperationID, Handler: r.Handler.Export,
		Policies: []routePolicy{}, CORSPolicy: r.CORSPolicy, GraphQL: r.GraphQL, File: r.Source.File,
		Pointer: r.Source.Pointer,
	}
	for _, name := range r.Inbound {
		out.Policies = append(out.Policies, routePolicy{name, policies[name].Type, "inbound"})
	}
	for _, name := range r.Outbound {
		out.Policies = append(out.Policies, routePolicy{name, policies[name].Type, "outbound"})
	}
	out.Policies = out.Policies[:min(len(out.Policies), maxShownPolicies)]
	return out
}

func viewPastBuild(b deployments.PastBuild) pastBuild {
	return pastBuild{BuildID: b.BuildID, CreatedOn: api.Timestamp(b.CreatedOn), SHA: b.SHA, State: string(b.State)}
}

func (in nameIn) locator(ctx context.Context) deployments.DeploymentLocator {
	return deployments.DeploymentLocator{Owner: auth.OwnerFrom(ctx), Deployment: in.DeploymentName}
}

func viewUpload(u deployments.Upload) upload {
	return upload{UploadURL: u.URL, DeploymentID: u.StatusID}
}

// viewStatus returns the response to a request for a status. statusURL is the URL of the request. Clients print the
// logUrl of a failed build (contract 3.1). logUrl is statusURL, because the status contains the steps and findings of
// the build. This URL requires an account key. If logUrl were a presigned URL of a file, everyone who sees the output
// of the client could read the file, and the URL would expire too early.
func viewStatus(s deployments.Status, statusURL string) deploymentStatus {
	out := deploymentStatus{
		Status: string(s.Status), URL: s.URL, BuildID: s.BuildID, Steps: make(map[string]step, len(s.Steps)),
		BuildResult: buildResult{
			BuildID: s.BuildID, Errors: api.Map(s.Errors, viewFinding), Warnings: api.Map(s.Warnings, viewFinding),
		},
	}
	if s.Status == deployments.Failure {
		out.LogURL = statusURL
	}
	for name, buildStep := range s.Steps {
		stepView := step{
			Status: string(buildStep.Status), StartedOn: api.Timestamp(buildStep.StartedOn),
			Message: buildStep.Message,
		}
		if buildStep.FinishedOn != nil {
			stepView.FinishedOn = api.Timestamp(*buildStep.FinishedOn)
		}
		out.Steps[name] = stepView
	}
	return out
}

func viewFinding(f deployments.Finding) finding {
	return finding{File: f.File, Path: f.Path, Line: f.Line, Column: f.Column, Message: f.Message}
}

func viewRedeploy(statusID string) redeployResult {
	return redeployResult{Status: "request enqueued", DeploymentID: statusID}
}

func viewDeployment(d deployments.Deployment) deployment {
	return deployment{
		Name: d.Name, URL: d.URL, Label: d.Label, URLParameter: d.Label, LoggingID: d.LoggingID,
		AccountName: d.Account, ProjectName: d.Project, BranchName: d.Branch,
		EnvironmentType: d.Kind.Upper(), State: string(d.State),
		CreatedOn: api.Timestamp(d.CreatedOn), UpdatedOn: api.Timestamp(d.UpdatedOn),
	}
}
