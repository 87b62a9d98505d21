package tunnel

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// PointsToRelay reports whether a service's endpoint is the relay's own address. Requests to such an endpoint would
// loop, and would reach paths that only gateways are allowed to call. It returns false for an endpoint that is not an
// absolute URL. The names localhost and *.localhost, and all loopback and unspecified addresses, count as the same
// host.
func PointsToRelay(endpoint string, relay *url.URL) bool {
	u, err := url.Parse(endpoint)
	return err == nil && relay != nil && u.Host != "" && normalizedHost(u) == normalizedHost(relay)
}

// normalizedHost returns the host and the port of a URL in a uniform spelling.
func normalizedHost(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	ip := net.ParseIP(host)
	switch {
	// RFC 6761 defines localhost. Dialing 0.0.0.0 connects to 127.0.0.1.
	case ip != nil && (ip.IsLoopback() || ip.IsUnspecified()), host == "localhost", strings.HasSuffix(host, ".localhost"):
		host = "localhost"
	case ip != nil:
		host = ip.String()
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return net.JoinHostPort(host, strings.TrimLeft(port, "0"))
}
