package accountkeys

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{accounts.Open(p)}
	return []api.Route{list.HandledBy(h.list), create.HandledBy(h.create), remove.HandledBy(h.remove)}
}

type handlers struct{ service *accounts.Service }

func (h handlers) list(ctx context.Context, in *listIn) (*listOut, error) {
	return api.RespondSlice(in.Page, view)(h.service.KeysFor(ctx, auth.PrincipalFrom(ctx)))
}

func (h handlers) create(ctx context.Context, in *createIn) (*createdOut, error) {
	spec, err := in.spec()
	if err != nil {
		return nil, err
	}
	key, text, err := h.service.CreateKeyFor(ctx, auth.PrincipalFrom(ctx), spec)
	if err != nil {
		return nil, err
	}
	return &createdOut{Body: createdKey{view(key), text}}, nil
}

func (h handlers) remove(ctx context.Context, in *removeIn) (*api.NoContent, error) {
	return nil, h.service.RevokeKeyFor(ctx, auth.PrincipalFrom(ctx), in.AccountKeyID, in.Force)
}
