package tunnel

import (
	"cmp"
	"net"
	"net/url"
	"strings"
)

// LeadsTo reports whether a service's endpoint is a relay's own address: requests to it would
// go round in a circle, and reach what only gateways may ask. Both are absolute URLs; an
// endpoint that is none leads nowhere. Names of the machine itself are all the same one.
func LeadsTo(endpoint string, relay *url.URL) bool {
	u, err := url.Parse(endpoint)
	return err == nil && relay != nil && u.Host != "" && place(u) == place(relay)
}

// place is the host and the port of a URL, in one spelling.
func place(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	ip := net.ParseIP(host)
	switch {
	case ip != nil && (ip.IsLoopback() || ip.IsUnspecified()), host == "localhost", strings.HasSuffix(host, ".localhost"): // RFC 6761; 0.0.0.0 is dialled as 127.0.0.1
		host = "localhost"
	case ip != nil:
		host = ip.String()
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return net.JoinHostPort(host, strings.TrimLeft(port, "0"))
}
