package product

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/gatewright/gatewright/functions/gateway"
	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/owncert"
)

// apiName and relayName are what the management API and the relay are called below a domain. All other
// names below it are deployments'.
func apiName(domain string) string   { return "api." + domain }
func relayName(domain string) string { return "relay." + domain }

// isDomain reports whether text is a domain name as it stands in the DNS.
func isDomain(text string) bool {
	ascii, err := idna.Registration.ToASCII(text)
	_, notAddress := netip.ParseAddr(text)
	return err == nil && ascii == text && notAddress != nil && text != "" && !strings.HasPrefix(text, ".") && !strings.HasSuffix(text, ".") && len(text) <= 200
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

// plainly answers by plain HTTP where everything is served by TLS, at a port: it leads there who only
// reads. Who sends something is refused: it has gone over the network for all to read, and a client that is led
// on each time never learns of it.
func (n names) plainly(port int, refuse apigateway.Refusal, gateway http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := framing.HostName(r.Host)
		if served, err := n.Served(r.Context(), name); err != nil || !served {
			gateway.ServeHTTP(w, r) // which says that nothing is there, or that nobody knows
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead || r.Header.Get("Authorization") != "" {
			refuse.Answer(w, r, http.StatusBadRequest, "This address is for HTTPS alone, and what was sent here could be read on its way. Begin the URL with https://, and replace a key that was sent.")
			return
		}
		to := url.URL{Scheme: "https", Host: name, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
		if port != httpsPort {
			to.Host = net.JoinHostPort(name, strconv.Itoa(port))
		}
		w.Header().Set("Location", to.String())
		w.WriteHeader(http.StatusPermanentRedirect)
	})
}

const httpsPort = 443
