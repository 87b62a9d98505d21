package api

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/origin"
)

// Origins defines which web pages may call an operation. Browsers send the origin of a page in the header Origin.
type Origins string

// The values of Origins. A response of an operation with NoOrigins has no CORS headers, so that browsers hide it
// from pages of other origins.
const (
	// NoOrigins is for operations that no page of another origin reads.
	NoOrigins Origins = ""
	// KnownOrigins is for operations that refuse pages of all origins except the
	// API's own and those that the installation allows: a page of someone else could
	// send requests in the name of its visitor (MCP, Transports, "Security Warning").
	KnownOrigins Origins = "known"
	// SameOrigin is for operations that refuse all pages except those of the API's own origin,
	// even pages of GATEWRIGHT_ORIGINS. It does not affect clients other than browsers.
	SameOrigin Origins = "own"
	// AnyOrigin is for public operations.
	AnyOrigin Origins = "any"
)

// preflightAge is the number of seconds for which browsers cache a preflight: an hour.
const preflightAge = "3600"

// checkOrigin refuses pages that may not call the operation. It sets the CORS headers for operations with AnyOrigin,
// and for known pages of operations with KnownOrigins. Fault: Forbidden.
func (s *Server) checkOrigin(o Origins, w http.ResponseWriter, r *http.Request) error {
	origins := r.Header["Origin"]
	switch {
	case o == SameOrigin:
		return checkSameOrigin(r)
	case o == NoOrigins, o == KnownOrigins && len(origins) == 0:
		return nil
	}
	if o == KnownOrigins && (len(origins) > 1 || !s.isKnownOrigin(origins[0])) {
		return fault.New(fault.Forbidden, "Pages of this origin may not call the API. Whoever runs the installation lets "+
			"them in by the setting GATEWRIGHT_ORIGINS.")
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
	// Allow the headers that the page requests, because tools define the names of some MCP headers
	// (Mcp-Param-…). Do not use *, because it does not include Authorization, which contains keys.
	headers := "Authorization, Content-Type"
	if o == AnyOrigin {
		headers = "*"
	} else if requested := r.Header["Access-Control-Request-Headers"]; len(requested) == 1 {
		headers = requested[0]
		w.Header().Add("Vary", "Access-Control-Request-Headers")
	}
	w.Header().Set("Access-Control-Allow-Headers", headers)
	return nil
}

// errCrossOrigin refuses a request of a page of another origin.
var errCrossOrigin = fault.New(fault.Forbidden,
	"Only pages of the API's own origin may send this request. Sign in on the console, or use a program other "+
		"than a browser.")

// checkSameOrigin returns a Forbidden fault for a request that a browser sent for a page of another origin.
//
// It accepts requests with one Sec-Fetch-Site field that is same-origin. It also accepts requests without the field,
// as programs send them, unless Origin names another host. It refuses cross-site, same-site and none. same-site is a
// page at another port or name of the same site, and a project's deployment can serve such a page. If this page could
// begin a session, it could sign its visitor in to the account of the page's author.
func checkSameOrigin(r *http.Request) error {
	if sites := r.Header.Values("Sec-Fetch-Site"); len(sites) > 0 && (len(sites) > 1 || sites[0] != "same-origin") {
		return errCrossOrigin
	}
	if http.NewCrossOriginProtection().Check(r) != nil { // older browsers send only Origin
		return errCrossOrigin
	}
	return nil
}

// isKnownOrigin reports whether an origin is the API's own, or one that the installation allows. The API's
// own origin is that of its configured address, and not that of Host, which an attacker can choose. If the
// configured address is a loopback address, all loopback addresses with the same port are accepted.
func (s *Server) isKnownOrigin(text string) bool {
	if slices.Contains(s.parts.Config.Origins, text) {
		return true
	}
	apiURL, err := url.Parse(s.parts.Config.APIURL)
	page, ok := origin.Parse(text)
	if err != nil || !ok || page.Scheme != apiURL.Scheme {
		return false
	}
	return origin.Same(text, apiURL.Scheme, apiURL.Host) || isLoopback(apiURL) && isLoopback(page) &&
		page.Port() == apiURL.Port()
}

func isLoopback(u *url.URL) bool {
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
}
