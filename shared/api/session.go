package api

import (
	"context"
	"net/http"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/fault"
)

// polledField is the header of a request that a page makes by itself, with "true". It does not keep a session from
// being idle: what shows live figures would keep one on an abandoned desk for as long as its key.
const polledField = "Gatewright-Idle"

// SessionAuthenticator is an Authenticator that knows sessions, too.
type SessionAuthenticator interface {
	// AuthenticateSession answers an Unauthenticated fault for a session that is unknown or has ended.
	AuthenticateSession(ctx context.Context, token string) (auth.Principal, error)
}

// TakesSession reports whether the operation may be asked by a session in place of an account key. MCP is not: its
// clients are programs, and what a message asks for is no request of its own.
func (d Declaration) TakesSession() bool { return !d.Public && !d.KeyAlone && !d.Carries }

// errTwoSessions: which one a proxy has looked at nobody knows.
var errTwoSessions = fault.New(fault.Unauthenticated, "There is more than one session in the Cookie header. Sign out, and sign in again.")

// errNotAsked is the answer to a session whose request was not made by a page of the API's own origin.
var errNotAsked = fault.New(fault.Unauthenticated,
	"A session counts for pages of the API's own origin alone, whose browser says so by Sec-Fetch-Site: same-origin. Elsewhere send an account key, as Authorization: Bearer gwa_….")

// errNoSession is the answer of an operation that takes sessions alone.
var errNoSession = fault.New(fault.Conflict,
	"This request is made with an account key, and is about the session that a request is made with. Make it with that session; to end all sessions of a key, revoke the key.")

// sessionToken reads the token of the session that a request is made with, which has no Authorization header, "" for
// none. A session counts where the browser says that a page of the API's own origin asks: one at another port of
// the host, which a project's deployment may be, is of another origin and sends the cookie all the same. Fault:
// Unauthenticated.
func sessionToken(d Declaration, r *http.Request) (string, error) {
	cookies := r.CookiesNamed(credential.SessionCookie)
	if len(cookies) == 0 || !d.TakesSession() {
		return "", nil
	}
	// Of two fields none counts, as of two cookies.
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) != 1 || sites[0] != "same-origin" {
		return "", errNotAsked
	}
	if len(cookies) > 1 {
		return "", errTwoSessions
	}
	// Nobody is trusted beside the own origin, not those of GATEWRIGHT_ORIGINS either: they have keys.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return "", errNotAsked
	}
	if cookies[0].Quoted { // as which it was never set
		return "", errNotAsked
	}
	return cookies[0].Value, nil
}

// callerBySession finds who asks with a session. It answers false for a request that has none, or none that counts for
// the operation. Fault: Unauthenticated.
func callerBySession(ctx context.Context, callers Authenticator, d Declaration, r *http.Request) (auth.Principal, bool, error) {
	known, ok := callers.(SessionAuthenticator)
	if !ok {
		return auth.Principal{}, false, nil
	}
	token, err := sessionToken(d, r)
	if token == "" || err != nil {
		return auth.Principal{}, err != nil, err
	}
	p, err := known.AuthenticateSession(ctx, token)
	if err == nil && p.Session != nil {
		p.Session.Polled = r.Header.Get(polledField) == "true"
	}
	return p, true, err
}
