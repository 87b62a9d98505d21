// Package origin parses the origins of web pages in the form of the header field Origin and of settings (RFC 6454, 6.2):
// scheme://host[:port] and nothing more. It refuses texts that only begin like an origin, which an attacker could use.
//
// This is the only file.
package origin

import (
	"net/url"
	"strings"
)

// Parse parses an origin with the scheme http or https. ok is false for everything else: "null", an address with a
// slash, an empty query or a user, and a host with a colon but no port.
func Parse(text string) (o *url.URL, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return nil, false
	}
	return u, strings.EqualFold(text, u.Scheme+"://"+u.Host)
}

// Valid reports whether text is an origin.
func Valid(text string) bool {
	_, ok := Parse(text)
	return ok
}

// Same reports whether text is the origin with this scheme and host. host is a host name with or without a port.
// Without one, it has the default port of the scheme.
func Same(text, scheme, host string) bool {
	o, ok := Parse(text)
	return ok && strings.EqualFold(o.Scheme, scheme) && strings.EqualFold(withPort(scheme, o.Host), withPort(scheme, host))
}

// withPort returns a host with the default port of its scheme, if it has no port.
func withPort(scheme, host string) string {
	if u := (url.URL{Host: host}); u.Port() != "" {
		return host
	}
	if strings.EqualFold(scheme, "https") {
		return host + ":443"
	}
	return host + ":80"
}
