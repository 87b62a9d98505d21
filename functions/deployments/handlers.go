package deployments

import (
	"context"
	"strings"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/inspection"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/mtlscertificates"
	"github.com/gatewright/gatewright/shared/project"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	service := deployments.Open(p)
	h := handlers{service, inspection.Open(p, service), mtlscertificates.Open(p, nil)}
	return []api.Route{
		sources.To(h.sources), sourceURL.To(h.sourceURL), projectSources.To(h.projectSources), status.To(h.status),
		source.To(h.source), list.To(h.list), read.To(h.read), routes.To(h.routes), remove.To(h.remove), removeFromProject.To(h.removeFromProject), redeploy.To(h.redeploy),
		rollback.To(h.rollback), history.To(h.history),
	}
}

type handlers struct {
	service      *deployments.Service
	inside       *inspection.Service
	certificates *mtlscertificates.Service
}

func (h handlers) sources(ctx context.Context, in *sourcesIn) (*uploadOut, error) {
	return h.issue(ctx, in.Body.AccountName, deployments.UploadAt{Project: in.Body.ProjectName, Branch: in.Body.BranchName})
}

func (h handlers) sourceURL(ctx context.Context, in *sourceURLIn) (*uploadOut, error) {
	at := deployments.UploadAt{
		Project: in.Body.ProjectName, Branch: in.Body.BranchName, RepositoryURL: in.Body.RepositoryURL, SHA: in.Body.SHA,
	}
	switch {
	case in.Body.Environment != "":
		at.Branch = in.Body.Environment
		out, err := h.issue(ctx, in.Body.AccountName, at)
		return out, fault.Renamed(err, "branchName", "environment")
	case at.Branch == "":
		return nil, fault.InvalidField("environment", "name the branch here or in branchName")
	}
	return h.issue(ctx, in.Body.AccountName, at)
}

// defaultBranch is what the earlier form of the operation deploys, which names
// no branch.
const defaultBranch = "main"

func (h handlers) projectSources(ctx context.Context, in *projectSourcesIn) (*uploadOut, error) {
	return h.issue(ctx, in.AccountName, deployments.UploadAt{Project: in.ProjectName, Branch: defaultBranch})
}

func (h handlers) issue(ctx context.Context, account string, at deployments.UploadAt) (*uploadOut, error) {
	at.Owner = auth.OwnerFrom(ctx)
	if account != at.Account {
		return nil, fault.Missing("account")
	}
	return api.Answer(viewUpload)(h.service.IssueUpload(ctx, at))
}

func (h handlers) status(ctx context.Context, in *statusIn) (*statusOut, error) {
	show := func(s deployments.Status) deploymentStatus { return viewStatus(s, api.Address(ctx)) }
	return api.Answer(show)(h.service.ReadStatus(ctx, deployments.StatusAt{
		Owner: auth.OwnerFrom(ctx), Project: in.ProjectName, StatusID: in.StatusID,
	}))
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.AnswerPart(in.Page, view)(h.service.ListDeployments(ctx, auth.OwnerFrom(ctx), in.ProjectName))
}

func (h handlers) read(ctx context.Context, in *nameIn) (*deploymentOut, error) {
	return api.Answer(view)(h.service.ReadDeployment(ctx, in.at(ctx)))
}

func (h handlers) remove(ctx context.Context, in *nameIn) (*api.NoContent, error) {
	return h.removeAt(ctx, in.at(ctx))
}

func (h handlers) removeFromProject(ctx context.Context, in *projectNameIn) (*api.NoContent, error) {
	return h.removeAt(ctx, deployments.DeploymentAt{Owner: auth.OwnerFrom(ctx), Deployment: in.DeploymentName, Project: in.ProjectName})
}

// removeAt answers a deletion with 200 and no body (contract 2.10), where huma
// takes a missing Out for 204.
func (h handlers) removeAt(ctx context.Context, at deployments.DeploymentAt) (*api.NoContent, error) {
	return &api.NoContent{}, h.service.DeleteDeployment(ctx, at)
}

func (h handlers) redeploy(ctx context.Context, in *nameIn) (*redeployOut, error) {
	return api.Answer(viewRedeploy)(h.service.Redeploy(ctx, in.at(ctx)))
}

func (h handlers) rollback(ctx context.Context, in *rollbackIn) (*deploymentOut, error) {
	to := ""
	if in.Body != nil {
		to = strings.ToLower(in.Body.To)
	}
	return api.Answer(view)(h.service.Rollback(ctx, nameIn{in.DeploymentName}.at(ctx), to, h.certificates))
}

func (h handlers) history(ctx context.Context, in *historyIn) (*historyOut, error) {
	return api.AnswerPart(in.Page, viewPast)(h.service.History(ctx, nameIn{in.DeploymentName}.at(ctx)))
}

func (h handlers) source(ctx context.Context, in *sourceIn) (*sourceOut, error) {
	return api.Answer(func(e project.Excerpt) excerpt {
		return excerpt{File: in.File, StartLine: e.Line, StartColumn: e.Column, Text: e.Text, MoreBefore: e.Before, MoreAfter: e.After}
	})(h.inside.ReadSource(ctx, inspection.SourceAt{
		StatusAt: deployments.StatusAt{Owner: auth.OwnerFrom(ctx), Project: in.ProjectName, StatusID: in.StatusID},
		File:     in.File, Line: in.Line, Column: in.Column,
	}))
}

func (h handlers) routes(ctx context.Context, in *routesIn) (*routesOut, error) {
	served, err := h.inside.Served(ctx, nameIn{in.DeploymentName}.at(ctx))
	return api.AnswerPart(in.Page, func(r project.Route) route { return viewRoute(r, served.Policies) })(served.Routes, err)
}

// shownPolicies is how many policies of a route are shown: nothing bounds how many it has.
const shownPolicies = 100

func viewRoute(r project.Route, policies map[string]project.Policy) route {
	out := route{
		Method: r.Method, Path: r.Path, PathMode: string(r.PathMode), OperationID: r.OperationID, Handler: r.Handler.Export,
		Policies: []routePolicy{}, CORSPolicy: r.CORSPolicy, GraphQL: r.GraphQL, File: r.Source.File, Pointer: r.Source.Pointer,
	}
	for _, name := range r.Inbound {
		out.Policies = append(out.Policies, routePolicy{name, policies[name].Type, "inbound"})
	}
	for _, name := range r.Outbound {
		out.Policies = append(out.Policies, routePolicy{name, policies[name].Type, "outbound"})
	}
	out.Policies = out.Policies[:min(len(out.Policies), shownPolicies)]
	return out
}

func viewPast(b deployments.PastBuild) pastBuild {
	return pastBuild{BuildID: b.BuildID, CreatedOn: api.Timestamp(b.CreatedOn), SHA: b.SHA, State: string(b.State)}
}

func (in nameIn) at(ctx context.Context) deployments.DeploymentAt {
	return deployments.DeploymentAt{Owner: auth.OwnerFrom(ctx), Deployment: in.DeploymentName}
}

func viewUpload(u deployments.Upload) upload {
	return upload{UploadURL: u.URL, DeploymentID: u.StatusID}
}

// viewStatus shows a status that is read at an address. Clients print logUrl of one
// that failed (contract 3.1): what the build has to say is in the status itself,
// its steps and its findings, so that this is its own address, which asks for an
// account key as everything does. A presigned file of the same would be readable
// by whoever sees the terminal's log, and gone before it is looked at.
func viewStatus(s deployments.Status, address string) deploymentStatus {
	out := deploymentStatus{
		Status: string(s.Status), URL: s.URL, BuildID: s.BuildID, Steps: make(map[string]step, len(s.Steps)),
		BuildResult: buildResult{
			BuildID: s.BuildID, Errors: api.Each(s.Errors, viewFinding), Warnings: api.Each(s.Warnings, viewFinding),
		},
	}
	if s.Status == deployments.Failure {
		out.LogURL = address
	}
	for name, each := range s.Steps {
		stepView := step{Status: string(each.Status), StartedOn: api.Timestamp(each.StartedOn), Message: each.Message}
		if each.FinishedOn != nil {
			stepView.FinishedOn = api.Timestamp(*each.FinishedOn)
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

func view(d deployments.Deployment) deployment {
	return deployment{
		Name: d.Name, URL: d.URL, Label: d.Label, URLParameter: d.Label, LoggingID: d.LoggingID,
		AccountName: d.Account, ProjectName: d.Project, BranchName: d.Branch,
		EnvironmentType: d.Kind.Upper(), State: string(d.State),
		CreatedOn: api.Timestamp(d.CreatedOn), UpdatedOn: api.Timestamp(d.UpdatedOn),
	}
}
