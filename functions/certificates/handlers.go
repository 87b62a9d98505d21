package certificates

import (
	"context"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/installation"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{certificates.Open(p)}
	return []api.Route{list.To(h.list), create.To(h.create), read.To(h.read), update.To(h.update), remove.To(h.remove)}
}

type handlers struct{ service *certificates.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.AnswerPart(in.Page, view)(h.service.List(ctx, auth.OwnerFrom(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*caOut, error) {
	return api.Answer(view)(h.service.Create(ctx, auth.OwnerFrom(ctx), certificates.New{
		Name: in.Body.Name, Certificate: in.Body.Certificate,
	}))
}

func (h handlers) read(ctx context.Context, in *caIn) (*caOut, error) {
	return api.Answer(view)(h.service.Read(ctx, auth.OwnerFrom(ctx), in.ID))
}

func (h handlers) update(ctx context.Context, in *updateIn) (*caOut, error) {
	return api.Answer(view)(h.service.Rename(ctx, auth.OwnerFrom(ctx), in.ID, in.Body.Name))
}

func (h handlers) remove(ctx context.Context, in *caIn) (*api.NoContent, error) {
	return nil, h.service.Delete(ctx, auth.OwnerFrom(ctx), in.ID)
}

func view(c certificates.CA) ca {
	return ca{
		ID: c.ID, Name: c.Name,
		Info: info{
			Subject: c.Info.Subject, Issuer: c.Info.Issuer, SerialNumber: c.Info.SerialNumber,
			ValidFrom: api.Timestamp(c.Info.ValidFrom), ValidTo: api.Timestamp(c.Info.ValidTo),
		},
		CreatedOn: api.Timestamp(c.CreatedOn), UpdatedOn: api.Timestamp(c.UpdatedOn),
	}
}
