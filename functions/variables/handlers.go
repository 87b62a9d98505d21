package variables

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/variables"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{variables.Open(p)}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), read.HandledBy(h.read),
		update.HandledBy(h.update), remove.HandledBy(h.remove),
	}
}

type handlers struct{ service *variables.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondSlice(in.Page, view)(h.service.List(ctx, in.branch(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*variableOut, error) {
	return api.Respond(view)(h.service.Create(ctx, in.branch(ctx), variables.NewVariable{
		Name: in.Body.Name, IsSecret: in.Body.IsSecret, Value: in.Body.Value,
	}))
}

func (h handlers) read(ctx context.Context, in *variableIn) (*variableOut, error) {
	return api.Respond(view)(h.service.Read(ctx, in.branch(ctx), in.VariableName))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*variableOut, error) {
	return api.Respond(view)(h.service.Update(ctx, in.branch(ctx), in.VariableName, in.Body.Value))
}

func (h handlers) remove(ctx context.Context, in *variableIn) (*api.NoContent, error) {
	return nil, h.service.Delete(ctx, in.branch(ctx), in.VariableName)
}

func (p BranchPath) branch(ctx context.Context) variables.Branch {
	return variables.Branch{Owner: auth.OwnerFrom(ctx), Project: p.ProjectName, Branch: p.BranchName}
}

func view(v variables.Variable) variable {
	return variable{
		Name: v.Name, Branch: v.Branch, IsSecret: v.IsSecret, Value: v.Value,
		CreatedOn: api.Timestamp(v.CreatedOn), UpdatedOn: api.Timestamp(v.UpdatedOn),
	}
}
