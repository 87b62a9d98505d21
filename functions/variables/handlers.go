package variables

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/variables"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	h := handlers{variables.Open(p)}
	return []api.Route{create.To(h.create), update.To(h.update)}
}

type handlers struct{ service *variables.Service }

func (h handlers) create(ctx context.Context, in *createIn) (*variableOut, error) {
	return api.Answer(view)(h.service.Create(ctx, in.at(ctx), variables.NewVariable{
		Name: in.Body.Name, IsSecret: in.Body.IsSecret, Value: in.Body.Value,
	}))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*variableOut, error) {
	return api.Answer(view)(h.service.Update(ctx, in.at(ctx), in.VariableName, in.Body.Value))
}

func (p BranchPath) at(ctx context.Context) variables.Branch {
	return variables.Branch{Owner: auth.OwnerFrom(ctx), Project: p.ProjectName, Branch: p.BranchName}
}

func view(v variables.Variable) variable {
	return variable{
		Name: v.Name, Branch: v.Branch, IsSecret: v.IsSecret, Value: v.Value,
		CreatedOn: api.Timestamp(v.CreatedOn), UpdatedOn: api.Timestamp(v.UpdatedOn),
	}
}
