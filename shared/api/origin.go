package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/origin"
)

// Origins says from which pages an operation may be called by browsers, which name the page's origin in Origin.
type Origins string

// The usual ways. An operation of neither says nothing of origins, so that browsers keep its answers from pages of
// others.
const (
	// NoOrigins is for operations that no page of another origin reads.
	NoOrigins Origins = ""
	// KnownOrigins is for those that refuse pages of all origins but the API's own and those that the installation
	// lets in: what a page can be made to send by others is a request of its visitor's (MCP, Transports, "Security
	// Warning").
	KnownOrigins Origins = "known"
	// OwnOrigin is for operations that refuse every page but the API's own, even pages of GATEWRIGHT_ORIGINS. It does
	// not affect clients other than browsers.
	OwnOrigin Origins = "own"
	// AnyOrigin is for what is public.
	AnyOrigin Origins = "any"
)

// preflightAge is how long a browser remembers what a preflight said, in seconds: an hour.
const preflightAge = "3600"

// letIn tells the browser of a request that names an origin whether its page may read the answer, and refuses those
// that may not call. Fault: Forbidden.
func (s *Server) letIn(o Origins, w http.ResponseWriter, r *http.Request) error {
	origins := r.Header["Origin"]
	switch {
	case o == OwnOrigin:
		return checkOwnOrigin(r)
	case o == NoOrigins, o == KnownOrigins && len(origins) == 0:
		return nil
	}
	if o == KnownOrigins && (len(origins) > 1 || !s.knows(origins[0])) {
		return fault.New(fault.Forbidden, "Pages of this origin may not call the API. Whoever runs the installation lets them in by the setting GATEWRIGHT_ORIGINS.")
	}
	allowed := "*"
	if o == KnownOrigins {
		allowed = origins[0]
		w.Header().Add("Vary", "Origin")
	}
	w.Header().Set("Access-Control-Allow-Origin", allowed)
	if r.Method != http.MethodOptions {
		w.Header().Set("Access-Control-Expose-Headers", "WWW-Authenticate, X-Request-Id")
		return nil
	}
	w.Header().Set("Access-Control-Allow-Methods", http.MethodPost)
	w.Header().Set("Access-Control-Max-Age", preflightAge)
	// What is asked for, since MCP has fields whose names a tool chooses (Mcp-Param-…); keys stand in Authorization,
	// which * does not cover.
	headers := "Authorization, Content-Type"
	if o == AnyOrigin {
		headers = "*"
	} else if asked := r.Header["Access-Control-Request-Headers"]; len(asked) == 1 {
		headers = asked[0]
		w.Header().Add("Vary", "Access-Control-Request-Headers")
	}
	w.Header().Set("Access-Control-Allow-Headers", headers)
	return nil
}

// errOtherPage refuses a page that is not the API's own.
var errOtherPage = fault.New(fault.Forbidden,
	"Only pages of the API's own origin may send this request. Sign in on the console, or use a program other than a browser.")

// checkOwnOrigin returns a Forbidden fault for a request that a browser sent for a page of another origin.
//
// It accepts requests with one Sec-Fetch-Site field that is same-origin, and requests without the field, as programs send them.
// It refuses cross-site, same-site and none. A page at another port or name of the site is same-site, and a
// deployment may serve such a page. If this page could begin a session, it would sign its visitor in to the
// account of the page's author.
func checkOwnOrigin(r *http.Request) error {
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 0 && (len(sites) > 1 || sites[0] != "same-origin") {
		return errOtherPage
	}
	if http.NewCrossOriginProtection().Check(r) != nil { // an older browser sends Origin alone
		return errOtherPage
	}
	return nil
}

// knows reports whether an origin is the API's own, by the address that it is configured with (a Host that a page
// makes up is not), or one that the installation lets in. On a laptop that address is the loopback's, by whatever name.
func (s *Server) knows(text string) bool {
	if slices.Contains(s.parts.Config.Origins, text) {
		return true
	}
	own, err := url.Parse(s.parts.Config.APIURL)
	asks, ok := origin.Parse(text)
	if err != nil || !ok || asks.Scheme != own.Scheme {
		return false
	}
	return origin.Same(text, own.Scheme, own.Host) || isLoopback(own) && isLoopback(asks) && asks.Port() == own.Port()
}

func isLoopback(u *url.URL) bool {
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
}
