package api

import (
	"context"
	"net/http"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/format/credential"
)

// polledField is a request header with the value "true". Pages send it with requests that they
// make on a timer. Such a request does not count as use of the session. Otherwise, an open
// page with live figures would keep its session from ending, even if nobody uses the computer.
const polledField = "Gatewright-Idle"

// SessionAuthenticator is an Authenticator that also finds the callers of sessions.
type SessionAuthenticator interface {
	// AuthenticateSession returns an Unauthenticated fault for a session that is unknown or has ended.
	AuthenticateSession(ctx context.Context, token string) (auth.Principal, error)
}

// AcceptsSession reports whether the operation accepts a session instead of an account key. The operations
// of MCP do not: their clients are programs, and the calls in their messages are not separate HTTP requests.
func (d Declaration) AcceptsSession() bool { return !d.Public && !d.KeyOnly && !d.ContainsRequests }

// errTwoSessions refuses two session cookies, because a proxy may have checked the other cookie.
var errTwoSessions = fault.New(fault.Unauthenticated,
	"There is more than one session in the Cookie header. Sign out, and sign in again.")

// errNotSameOrigin refuses a session if the request was not made by a page of the API's own origin.
var errNotSameOrigin = fault.New(fault.Unauthenticated,
	"A session counts for pages of the API's own origin alone, whose browser says so by Sec-Fetch-Site: same-origin. "+
		"Elsewhere send an account key, as Authorization: Bearer gwa_….")

// errNoSession refuses an account key for an operation that only accepts sessions.
var errNoSession = fault.New(fault.Conflict,
	"This request is made with an account key, and is about the session that a request is made with. Make it with that "+
		"session; to end all sessions of a key, revoke the key.")

// sessionToken returns the session token of a request without an Authorization header, or "" if there
// is none. A session is valid only if, according to the browser, a page of the API's own origin sends
// the request. A page at another port of the host, such as a page of a project's deployment, has
// another origin, but browsers send the cookie with its requests too. Fault: Unauthenticated.
func sessionToken(d Declaration, r *http.Request) (string, error) {
	cookies := r.CookiesNamed(credential.SessionCookie)
	if len(cookies) == 0 || !d.AcceptsSession() {
		return "", nil
	}
	// Two Sec-Fetch-Site fields are invalid, like two cookies.
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) != 1 || sites[0] != "same-origin" {
		return "", errNotSameOrigin
	}
	if len(cookies) > 1 {
		return "", errTwoSessions
	}
	// Only the API's own origin is trusted. Pages of the origins in GATEWRIGHT_ORIGINS have to use keys.
	if err := http.NewCrossOriginProtection().Check(r); err != nil {
		return "", errNotSameOrigin
	}
	if cookies[0].Quoted { // the API never sets a quoted cookie
		return "", errNotSameOrigin
	}
	return cookies[0].Value, nil
}

// callerBySession finds the caller of a request with a session. It returns false without an error if the
// request has no session, or if the operation or authenticator accepts no session. Fault: Unauthenticated.
func callerBySession(
	ctx context.Context, authenticator Authenticator, d Declaration, r *http.Request,
) (auth.Principal, bool, error) {
	sessions, ok := authenticator.(SessionAuthenticator)
	if !ok {
		return auth.Principal{}, false, nil
	}
	token, err := sessionToken(d, r)
	if token == "" || err != nil {
		return auth.Principal{}, err != nil, err
	}
	p, err := sessions.AuthenticateSession(ctx, token)
	if err == nil && p.Session != nil {
		p.Session.Polled = r.Header.Get(polledField) == "true"
	}
	return p, true, err
}
