package projects

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/removal/tally"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{deployments.Open(p), tally.Open(p)}
	return []api.Route{list.To(h.list), create.To(h.create), read.To(h.read), remove.To(h.remove), deletion.To(h.deletion)}
}

type handlers struct {
	service *deployments.Service
	tally   *tally.Tally
}

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	owner, err := owner(ctx, in.AccountName)
	if err != nil {
		return nil, err
	}
	return api.AnswerPart(in.Page, view)(h.service.ListProjects(ctx, owner))
}

func (h handlers) create(ctx context.Context, in *createIn) (*projectOut, error) {
	owner, err := owner(ctx, in.AccountName)
	if err != nil {
		return nil, err
	}
	return api.Answer(view)(h.service.CreateProject(ctx, owner, in.Body.Name))
}

func (h handlers) read(ctx context.Context, in *projectIn) (*projectOut, error) {
	return api.Answer(view)(h.service.ReadProject(ctx, auth.OwnerFrom(ctx), in.ProjectName))
}

func (h handlers) remove(ctx context.Context, in *projectIn) (*deletionOut, error) {
	owner := auth.OwnerFrom(ctx)
	if err := h.tally.Project(ctx, owner.AccountID, in.ProjectName); err != nil {
		return nil, err
	}
	return api.Answer(viewDeletion)(h.service.DeleteProject(ctx, owner, in.ProjectName))
}

func (h handlers) deletion(ctx context.Context, in *deletionIn) (*deletionOut, error) {
	return api.Answer(viewDeletion)(h.service.ReadDeletion(ctx, auth.OwnerFrom(ctx), in.ProjectName, in.OperationID))
}

func viewDeletion(d deployments.Deletion) operation {
	return operation{ID: d.ID, Status: string(d.Status), Message: d.Message}
}

// owner is the caller's account, which is all that a key sees. The query names
// it for clients that have several keys.
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
