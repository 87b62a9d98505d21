// Package origin reads the origins of web pages as browsers name them in Origin, and as settings do (RFC 6454, 6.2):
// scheme://host[:port] and nothing more. What only begins like one is a page of somebody who hopes that it is taken for it.
package origin

import (
	"net/url"
	"strings"
)

// Parse reads an origin of http or https. ok is false for all else: "null", an address with as much as a slash, an empty
// query or a user behind it, and a port that is not there after its colon.
func Parse(text string) (o *url.URL, ok bool) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return nil, false
	}
	return u, strings.EqualFold(text, u.Scheme+"://"+u.Host)
}

// Is reports whether text is an origin.
func Is(text string) bool {
	_, ok := Parse(text)
	return ok
}

// Same reports whether text is the origin of a scheme and a host, which has a port where it is not the scheme's own.
func Same(text, scheme, host string) bool {
	o, ok := Parse(text)
	return ok && strings.EqualFold(o.Scheme, scheme) && strings.EqualFold(withPort(scheme, o.Host), withPort(scheme, host))
}

// withPort is a host with the port of its scheme, where it has none.
func withPort(scheme, host string) string {
	if u := (url.URL{Host: host}); u.Port() != "" {
		return host
	}
	if strings.EqualFold(scheme, "https") {
		return host + ":443"
	}
	return host + ":80"
}
