package certificates

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{clientcas.Open(p)}
	return []api.Route{
		list.HandledBy(h.list), create.HandledBy(h.create), read.HandledBy(h.read),
		update.HandledBy(h.update), remove.HandledBy(h.remove),
	}
}

type handlers struct{ service *clientcas.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondSlice(in.Page, view)(h.service.List(ctx, auth.OwnerFrom(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*caOut, error) {
	return api.Respond(view)(h.service.Create(ctx, auth.OwnerFrom(ctx), clientcas.CreateInput{
		Name: in.Body.Name, Certificate: in.Body.Certificate,
	}))
}

func (h handlers) read(ctx context.Context, in *caIn) (*caOut, error) {
	return api.Respond(view)(h.service.Read(ctx, auth.OwnerFrom(ctx), in.ID))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*caOut, error) {
	return api.Respond(view)(h.service.Rename(ctx, auth.OwnerFrom(ctx), in.ID, in.Body.Name))
}

func (h handlers) remove(ctx context.Context, in *caIn) (*api.NoContent, error) {
	return nil, h.service.Delete(ctx, auth.OwnerFrom(ctx), in.ID)
}

func view(c clientcas.CA) ca {
	return ca{
		ID: c.ID, Name: c.Name,
		Info: info{
			Subject: c.Info.Subject, Issuer: c.Info.Issuer, SerialNumber: c.Info.SerialNumber,
			ValidFrom: api.Timestamp(c.Info.ValidFrom), ValidTo: api.Timestamp(c.Info.ValidTo),
		},
		CreatedOn: api.Timestamp(c.CreatedOn), UpdatedOn: api.Timestamp(c.UpdatedOn),
	}
}
