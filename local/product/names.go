package product

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/runtime/servercert"
)

// apiName and relayName return the host names of the management API and the
// relay below a domain. All other names below the domain belong to deployments.
func apiName(domain string) string   { return "api." + domain }
func relayName(domain string) string { return "relay." + domain }

// maxDomain is the length of the longest domain whose deployments have valid names: 253
// characters (RFC 1035, section 3.1), minus the 63 of a deployment's label and a dot.
const maxDomain = 253 - 63 - 1

// isDomain reports whether text is a domain name in ASCII, short enough that the deployments below it have valid names.
// A name whose last label is a number is not a domain: clients parse names below it as IP addresses.
func isDomain(text string) bool {
	ascii, err := idna.Registration.ToASCII(text)
	if err != nil || ascii != text || text == "" || strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") ||
		len(text) > maxDomain {
		return false
	}
	_, numberErr := strconv.ParseUint(text[strings.LastIndexByte(text, '.')+1:], 0, 64)
	_, addressErr := netip.ParseAddr(text)
	return numberErr != nil && addressErr != nil
}

// names are the host names that an installation serves below its domain.
type names struct {
	domain string
	hosts  *gateway.Hosts
	// hasRelay reports whether the installation has a relay.
	hasRelay bool
}

var _ servercert.Names = names{}

func (n names) isAPI(name string) bool   { return name == apiName(n.domain) }
func (n names) isRelay(name string) bool { return n.hasRelay && name == relayName(n.domain) }

// Owns implements servercert.Names.
func (n names) Owns(name string) bool { return n.isAPI(name) || n.isRelay(name) || n.hosts.Owns(name) }

// Served implements servercert.Names.
func (n names) Served(ctx context.Context, name string) (bool, error) {
	if n.isAPI(name) || n.isRelay(name) {
		return true, nil
	}
	return n.hosts.Served(ctx, name)
}

// handler returns a handler that passes each request to api, relay or gateway, by the host name of the request.
func (n names) handler(api, relay, gateway http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch name := framing.HostName(r.Host); {
		case n.isAPI(name):
			api.ServeHTTP(w, r)
		case n.isRelay(name):
			relay.ServeHTTP(w, r)
		default:
			gateway.ServeHTTP(w, r)
		}
	})
}

// redirectToHTTPS returns the handler for plain HTTP if all names are served by TLS. It redirects GET and HEAD requests
// to HTTPS. The gateway responds to requests for a name that is not served. redirectToHTTPS rejects other methods, and
// requests with a body or credentials: others on the network could have read them, and a redirected client would not
// notice that. The redirect contains no port, because the public URLs have none: a load balancer or a container can map
// the listener to another port.
func redirectToHTTPS(n servercert.Names, refusal apigateway.Refuser, gateway http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := framing.HostName(r.Host)
		switch served, err := n.Served(r.Context(), name); {
		case err != nil: // do not call the gateway: its own lookup could succeed and serve the deployment by HTTP
			refusal.Respond(w, r, http.StatusServiceUnavailable,
				"What is served at this host could not be looked up. Try again in a moment, by https://.")
		case !served:
			gateway.ServeHTTP(w, r) // the gateway responds that there is no such deployment
		case r.Method != http.MethodGet && r.Method != http.MethodHead || r.ContentLength != 0 ||
			r.Header.Get("Authorization") != "" || len(r.CookiesNamed(credential.SessionCookie)) > 0:
			refusal.Respond(w, r, http.StatusBadRequest, "This address is for HTTPS alone, and what was sent here could be "+
				"read on its way. Begin the URL with https://, and replace a key that was sent, or sign out of a session.")
		default:
			target := url.URL{Scheme: "https", Host: name, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
			w.Header().Set("Location", target.String())
			w.WriteHeader(http.StatusPermanentRedirect)
		}
	})
}
