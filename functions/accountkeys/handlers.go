package accountkeys

import (
	"context"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/installation"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{accounts.Open(p)}
	return []api.Route{list.To(h.list), create.To(h.create), remove.To(h.remove)}
}

type handlers struct{ service *accounts.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.AnswerPart(in.Page, view)(h.service.KeysFor(ctx, auth.From(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*createdOut, error) {
	spec, err := in.spec()
	if err != nil {
		return nil, err
	}
	key, text, err := h.service.CreateKeyFor(ctx, auth.From(ctx), spec)
	if err != nil {
		return nil, err
	}
	return &createdOut{Body: createdKey{view(key), text}}, nil
}

func (h handlers) remove(ctx context.Context, in *removeIn) (*api.NoContent, error) {
	return nil, h.service.RevokeKeyFor(ctx, auth.From(ctx), in.AccountKeyID, in.Force)
}
