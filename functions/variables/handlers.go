package variables

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	service "github.com/gatewright/gatewright/shared/variables"
)

// Service is what the handlers call: package variables in shared.
type Service interface {
	Create(ctx context.Context, at service.Branch, n service.NewVariable) (service.Variable, error)
	Update(ctx context.Context, at service.Branch, name string, value *string) (service.Variable, error)
}

var _ Service = (*service.Service)(nil)

// Routes binds the group's operations.
func Routes(s Service) []api.Route {
	h := handlers{s}
	return []api.Route{create.To(h.create), update.To(h.update)}
}

type handlers struct{ service Service }

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
