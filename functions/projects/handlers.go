package projects

import (
	"context"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/resource/projectdeletion/tally"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{deployments.Open(p), tally.Open(p)}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), read.HandledBy(h.read),
		remove.HandledBy(h.remove), deletion.HandledBy(h.deletion),
	}
}

type handlers struct {
	service *deployments.Service
	counter *tally.Counter
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	owner, err := owner(ctx, in.AccountName)
	if err != nil {
		return nil, err
	}
	return api.RespondSlice(in.Page, view)(h.service.ListProjects(ctx, owner))
}

func (h handlers) create(ctx context.Context, in *createIn) (*projectOut, error) {
	owner, err := owner(ctx, in.AccountName)
	if err != nil {
		return nil, err
	}
	return api.Respond(view)(h.service.CreateProject(ctx, owner, in.Body.Name))
}

func (h handlers) read(ctx context.Context, in *projectIn) (*projectOut, error) {
	return api.Respond(view)(h.service.ReadProject(ctx, auth.OwnerFrom(ctx), in.ProjectName))
}

func (h handlers) remove(ctx context.Context, in *projectIn) (*deletionOut, error) {
	owner := auth.OwnerFrom(ctx)
	// In a dry run, report the contents of the project, which the deletion removes.
	if err := h.counter.ReportProject(ctx, owner.AccountID, in.ProjectName); err != nil {
		return nil, err
	}
	return api.Respond(viewDeletion)(h.service.DeleteProject(ctx, owner, in.ProjectName))
}

func (h handlers) deletion(ctx context.Context, in *deletionIn) (*deletionOut, error) {
	return api.Respond(viewDeletion)(h.service.ReadDeletion(ctx, auth.OwnerFrom(ctx), in.ProjectName, in.OperationID))
}

func viewDeletion(d deployments.Deletion) operation {
	return operation{ID: d.ID, Status: string(d.Status), Message: d.Message}
}

// owner returns the caller's account. It returns NotFound if account names another account, because a key can only see
// its own account. Clients with several keys send the account in the query, to make sure that they use the right key.
func owner(ctx context.Context, account string) (auth.Owner, error) {
	o := auth.OwnerFrom(ctx)
	if account != "" && account != o.Account {
		return auth.Owner{}, fault.Missing("account")
	}
	return o, nil
}

func view(p deployments.Project) project {
	return project{
		ID: p.ID, Name: p.Name, AccountName: p.Account, Type: "managed-edge", ProductType: "api-gateway",
		CreatedOn: api.Timestamp(p.CreatedOn), UpdatedOn: api.Timestamp(p.UpdatedOn),
	}
}
