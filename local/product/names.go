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
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/owncert"
)

// apiName and relayName are what the management API and the relay are called below a domain. All other
// names below it are deployments'.
func apiName(domain string) string   { return "api." + domain }
func relayName(domain string) string { return "relay." + domain }

// maxDomain is the longest domain whose deployments have names: 253 characters (RFC 1035, section 3.1), of which a
// deployment's label takes 63 and a dot.
const maxDomain = 253 - 63 - 1

// isDomain reports whether text is a domain name as it stands in the DNS, below which there is room. One whose last
// label is a number is none: clients take what is below it for an address.
func isDomain(text string) bool {
	ascii, err := idna.Registration.ToASCII(text)
	if err != nil || ascii != text || text == "" || strings.HasPrefix(text, ".") || strings.HasSuffix(text, ".") || len(text) > maxDomain {
		return false
	}
	_, notNumber := strconv.ParseUint(text[strings.LastIndexByte(text, '.')+1:], 0, 64)
	_, notAddress := netip.ParseAddr(text)
	return notNumber != nil && notAddress != nil
}

// names are what an installation serves below its domain.
type names struct {
	domain string
	hosts  *gateway.Hosts
	// relayed says that there is a relay.
	relayed bool
}

var _ owncert.Names = names{}

func (n names) isAPI(name string) bool   { return name == apiName(n.domain) }
func (n names) isRelay(name string) bool { return n.relayed && name == relayName(n.domain) }

// Owns implements owncert.Names.
func (n names) Owns(name string) bool { return n.isAPI(name) || n.isRelay(name) || n.hosts.Owns(name) }

// Served implements owncert.Names.
func (n names) Served(ctx context.Context, name string) (bool, error) {
	if n.isAPI(name) || n.isRelay(name) {
		return true, nil
	}
	return n.hosts.Served(ctx, name)
}

// handler answers by the name that a request is for.
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

// plainly answers by plain HTTP where everything is served by TLS: it leads there who only
// reads. Who sends something is refused: it has gone over the network for all to read, and a client that is led
// on each time never learns of it. It leads to the port that URLs name, none, wherever the listener is: a
// balancer or a container may have it at another one.
func plainly(n owncert.Names, refuse apigateway.Refusal, gateway http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := framing.HostName(r.Host)
		switch served, err := n.Served(r.Context(), name); {
		case err != nil: // and not the gateway's answer, which may know better by then
			refuse.Answer(w, r, http.StatusServiceUnavailable, "What is served at this host could not be looked up. Try again in a moment, by https://.")
		case !served:
			gateway.ServeHTTP(w, r) // which says that nothing is there
		case r.Method != http.MethodGet && r.Method != http.MethodHead || r.ContentLength != 0 || r.Header.Get("Authorization") != "" || len(r.CookiesNamed(credential.SessionCookie)) > 0:
			refuse.Answer(w, r, http.StatusBadRequest, "This address is for HTTPS alone, and what was sent here could be read on its way. Begin the URL with https://, and replace a key that was sent, or sign out of a session.")
		default:
			to := url.URL{Scheme: "https", Host: name, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
			w.Header().Set("Location", to.String())
			w.WriteHeader(http.StatusPermanentRedirect)
		}
	})
}
