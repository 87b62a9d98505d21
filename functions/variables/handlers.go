package variables

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
	service "github.com/gatewright/gatewright/shared/variables"
)

// Bind gives the group's routes.
func Bind(p installation.Parts) []api.Route {
	h := handlers{service.Open(p)}
	return []api.Route{create.To(h.create), update.To(h.update)}
}

type handlers struct{ service *service.Service }

func (h handlers) create(ctx context.Context, in *createIn) (*variableOut, error) {
	v, err := h.service.Create(ctx, in.at(ctx), service.NewVariable{
		Name: in.Body.Name, IsSecret: in.Body.IsSecret, Value: in.Body.Value,
	})
	return shown(v), err
}

func (h handlers) update(ctx context.Context, in *updateIn) (*variableOut, error) {
	v, err := h.service.Update(ctx, in.at(ctx), in.VariableName, in.Body.Value)
	return shown(v), err
}

func (p BranchPath) at(ctx context.Context) service.Branch {
	caller := auth.From(ctx)
	return service.Branch{AccountID: caller.AccountID, Project: p.ProjectName, Branch: p.BranchName, Viewer: caller}
}

func shown(v service.Variable) *variableOut {
	return &variableOut{Body: variable{
		Name: v.Name, Branch: v.Branch, IsSecret: v.IsSecret, Value: v.Value,
		CreatedOn: api.Timestamp(v.CreatedOn), UpdatedOn: api.Timestamp(v.UpdatedOn),
	}}
}
