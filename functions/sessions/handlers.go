package sessions

import (
	"context"
	"net/http"

	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/sessions"
)

// Bind gives the group's routes.
func Bind(p installation.Parts) []api.Route {
	p = Group.Held(p)
	h := handlers{sessions.Open(p, accounts.Open(p))}
	return []api.Route{create.To(h.create), read.To(h.read), remove.To(h.remove)}
}

type handlers struct{ service *sessions.Service }

func (h handlers) create(ctx context.Context, _ *createIn) (*createdOut, error) {
	by := auth.From(ctx)
	made, token, err := h.service.Create(ctx, by)
	if err != nil {
		return nil, err
	}
	by.Session = &made
	return &createdOut{cookie(token, 0), view(by)}, nil
}

func (handlers) read(ctx context.Context, _ *readIn) (*callerOut, error) {
	return &callerOut{Body: view(auth.From(ctx))}, nil
}

func (h handlers) remove(ctx context.Context, _ *removeIn) (*removedOut, error) {
	if err := h.service.Delete(ctx, *auth.From(ctx).Session); err != nil {
		return nil, err
	}
	return &removedOut{cookie("", -1)}, nil
}

// cookie is that of a session's token. It has no end of its own, so that it goes with the browser; the session's is its
// record's. A maxAge below 0 removes it.
func cookie(token string, maxAge int) http.Cookie {
	return http.Cookie{Name: credential.SessionCookie, Value: token, MaxAge: maxAge, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteStrictMode}
}

func view(p auth.Principal) caller {
	out := caller{
		Account: p.AccountName, Sub: p.KeyID, Label: p.Label,
		Scopes:       api.NamesOf(p.Permissions.HasAllScopes(), p.Permissions.Scopes),
		Projects:     api.NamesOf(p.SeesAllProjects(), p.Permissions.Projects),
		Environments: api.Each(p.Permissions.Environments, func(k environment.Kind) string { return string(k) }),
		Confirm:      p.Permissions.Confirm,
	}
	if p.ExpiresOn != nil {
		out.KeyExpiresOn = new(api.Timestamp(*p.ExpiresOn))
	}
	if s := p.Session; s != nil {
		out.Session = &session{api.Timestamp(s.CreatedOn), api.Timestamp(s.EndsOn), int(sessions.Idle.Seconds())}
	}
	return out
}
