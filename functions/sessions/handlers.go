package sessions

import (
	"context"
	"net/http"

	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/accounts"
	"github.com/gatewright/gatewright/shared/resource/sessions"
)

// Bind returns the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Restrict(p)
	h := handlers{sessions.Open(p, accounts.Open(p))}
	return []api.Route{create.HandledBy(h.create), read.HandledBy(h.read), remove.HandledBy(h.remove)}
}

type handlers struct{ service *sessions.Service }

func (h handlers) create(ctx context.Context, _ *createIn) (*createdOut, error) {
	principal := auth.PrincipalFrom(ctx)
	created, token, err := h.service.Create(ctx, principal)
	if err != nil {
		return nil, err
	}
	principal.Session = &created
	return &createdOut{cookie(token, 0), view(principal)}, nil
}

func (handlers) read(ctx context.Context, _ *readIn) (*callerOut, error) {
	return &callerOut{Body: view(auth.PrincipalFrom(ctx))}, nil
}

func (h handlers) remove(ctx context.Context, _ *removeIn) (*removedOut, error) {
	if err := h.service.Delete(ctx, *auth.PrincipalFrom(ctx).Session); err != nil {
		return nil, err
	}
	return &removedOut{cookie("", -1)}, nil
}

// cookie returns the cookie with a session's token. The cookie has no expiry, so that a browser deletes the cookie when
// the browser closes. The expiry of the session is in the session's record. A maxAge below 0 makes the browser delete
// the cookie immediately.
func cookie(token string, maxAge int) http.Cookie {
	return http.Cookie{
		Name: credential.SessionCookie, Value: token, MaxAge: maxAge, Path: "/", Secure: true,
		HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}

func view(p auth.Principal) caller {
	out := caller{
		Account: p.AccountName, Sub: p.KeyID, Label: p.Label,
		Scopes:       api.NewNames(p.Permissions.HasAllScopes(), p.Permissions.Scopes),
		Projects:     api.NewNames(p.CanSeeAllProjects(), p.Permissions.Projects),
		Environments: api.Map(p.Permissions.Environments, func(k environment.Kind) string { return string(k) }),
		Confirm:      p.Permissions.Confirm,
	}
	if p.ExpiresOn != nil {
		out.KeyExpiresOn = new(api.Timestamp(*p.ExpiresOn))
	}
	if s := p.Session; s != nil {
		out.Session = &session{api.Timestamp(s.CreatedOn), api.Timestamp(s.ExpiresOn), int(sessions.IdleTimeout.Seconds())}
	}
	return out
}
