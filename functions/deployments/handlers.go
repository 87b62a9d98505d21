package deployments

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
)

// Bind gives the group's routes.
func Bind(p installation.Parts) []api.Route {
	h := handlers{deployments.Open(p)}
	return []api.Route{
		sources.To(h.sources), sourceURL.To(h.sourceURL), projectSources.To(h.projectSources), status.To(h.status),
		list.To(h.list), read.To(h.read), remove.To(h.remove), removeFromProject.To(h.removeFromProject), redeploy.To(h.redeploy),
	}
}

type handlers struct{ service *deployments.Service }

func (h handlers) sources(ctx context.Context, in *sourcesIn) (*uploadOut, error) {
	return h.issue(ctx, in.Body.AccountName, deployments.UploadAt{
		Project: in.Body.ProjectName, ProjectField: "body.projectName",
		Branch: in.Body.BranchName, BranchField: "body.branchName",
	})
}

func (h handlers) sourceURL(ctx context.Context, in *sourceURLIn) (*uploadOut, error) {
	branch, field := in.Body.Environment, "body.environment"
	if branch == "" {
		branch, field = in.Body.BranchName, "body.branchName"
	}
	if branch == "" {
		return nil, fault.InvalidField("body.environment", "name the branch here or in branchName")
	}
	return h.issue(ctx, in.Body.AccountName, deployments.UploadAt{
		Project: in.Body.ProjectName, ProjectField: "body.projectName", Branch: branch, BranchField: field,
		RepositoryURL: in.Body.RepositoryURL, SHA: in.Body.SHA,
	})
}

// defaultBranch is what the earlier form of the operation deploys, which names
// no branch.
const defaultBranch = "main"

func (h handlers) projectSources(ctx context.Context, in *projectSourcesIn) (*uploadOut, error) {
	return h.issue(ctx, in.AccountName, deployments.UploadAt{
		Project: in.ProjectName, ProjectField: "path.projectName", Branch: defaultBranch,
	})
}

func (h handlers) issue(ctx context.Context, account string, at deployments.UploadAt) (*uploadOut, error) {
	at.Owner = owner(ctx)
	if account != at.Account {
		return nil, fault.Missing("account")
	}
	u, err := h.service.IssueUpload(ctx, at)
	if err != nil {
		return nil, err
	}
	out := &uploadOut{}
	out.Body.UploadURL, out.Body.DeploymentID = u.URL, u.StatusID
	return out, nil
}

func (h handlers) status(ctx context.Context, in *statusIn) (*statusOut, error) {
	s, err := h.service.ReadStatus(ctx, deployments.StatusAt{Owner: owner(ctx), Project: in.ProjectName, StatusID: in.StatusID})
	if err != nil {
		return nil, err
	}
	out := &statusOut{}
	out.Body.Status, out.Body.URL, out.Body.BuildID = string(s.Status), s.URL, s.BuildID
	out.Body.Steps = make(map[string]step, len(s.Steps))
	for name, each := range s.Steps {
		shown := step{Status: string(each.Status), StartedOn: api.Timestamp(each.StartedOn), Message: each.Message}
		if each.FinishedOn != nil {
			shown.FinishedOn = api.Timestamp(*each.FinishedOn)
		}
		out.Body.Steps[name] = shown
	}
	out.Body.BuildResult = buildResult{BuildID: s.BuildID, Errors: findings(s.Errors), Warnings: findings(s.Warnings)}
	return out, nil
}

func findings(fs []deployments.Finding) []finding {
	out := make([]finding, 0, len(fs))
	for _, f := range fs {
		out = append(out, finding{File: f.File, Path: f.Path, Message: f.Message})
	}
	return out
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	all, err := h.service.ListDeployments(ctx, owner(ctx), in.ProjectName)
	if err != nil {
		return nil, err
	}
	shown := make([]deployment, 0, len(all))
	for _, d := range all {
		shown = append(shown, show(d))
	}
	return &listOut{Body: api.Slice(shown, in.Page)}, nil
}

func (h handlers) read(ctx context.Context, in *nameIn) (*deploymentOut, error) {
	d, err := h.service.ReadDeployment(ctx, deployments.DeploymentAt{Owner: owner(ctx), Deployment: in.DeploymentName})
	if err != nil {
		return nil, err
	}
	return &deploymentOut{Body: show(d)}, nil
}

func (h handlers) remove(ctx context.Context, in *nameIn) (*api.NoContent, error) {
	return h.removeAt(ctx, deployments.DeploymentAt{Owner: owner(ctx), Deployment: in.DeploymentName})
}

func (h handlers) removeFromProject(ctx context.Context, in *projectNameIn) (*api.NoContent, error) {
	return h.removeAt(ctx, deployments.DeploymentAt{Owner: owner(ctx), Deployment: in.DeploymentName, Project: in.ProjectName})
}

func (h handlers) removeAt(ctx context.Context, at deployments.DeploymentAt) (*api.NoContent, error) {
	if err := h.service.DeleteDeployment(ctx, at); err != nil {
		return nil, err
	}
	return &api.NoContent{}, nil
}

func (h handlers) redeploy(ctx context.Context, in *nameIn) (*redeployOut, error) {
	id, err := h.service.Redeploy(ctx, deployments.DeploymentAt{Owner: owner(ctx), Deployment: in.DeploymentName})
	if err != nil {
		return nil, err
	}
	out := &redeployOut{}
	out.Body.Status, out.Body.DeploymentID = "request enqueued", id
	return out, nil
}

func owner(ctx context.Context) deployments.Owner {
	p := auth.From(ctx)
	return deployments.Owner{AccountID: p.AccountID, Account: p.AccountName, Viewer: p}
}

func show(d deployments.Deployment) deployment {
	return deployment{
		Name: d.Name, URL: d.URL, Label: d.Label, URLParameter: d.Label, LoggingID: d.LoggingID,
		AccountName: d.Account, ProjectName: d.Project, BranchName: d.Branch,
		EnvironmentType: d.Kind.Upper(), State: string(d.State),
		CreatedOn: api.Timestamp(d.CreatedOn), UpdatedOn: api.Timestamp(d.UpdatedOn),
	}
}
