package upstream

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// hopByHop are the fields that belong to one connection (RFC 9110, section
// 7.6.1, with the older names that are still seen).
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization",
	"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// ours are the request fields that the gateway writes itself: what a client
// says in them is read before, where the installation trusts it.
var ours = []string{
	"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port", "X-Forwarded-Server",
	"X-Real-Ip", "X-Request-Id", "Traceparent", "Tracestate",
}

// RequestHeader returns the fields of a client's request that may go upstream, in
// a map of its own that shares the values, and the protocol that the client
// asks to switch to, "" for none.
func RequestHeader(in http.Header) (out http.Header, upgrade string) {
	out = make(http.Header, len(in)+8)
	listed := connectionTokens(in)
	for name, values := range in {
		if isHopByHop(name) || isOurs(name) || len(listed) > 0 && slices.Contains(listed, name) {
			continue
		}
		out[name] = values
	}
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		out["Te"] = []string{"trailers"}
	}
	if httpguts.HeaderValuesContainsToken(in["Connection"], "upgrade") {
		upgrade = in.Get("Upgrade")
	}
	return out, upgrade
}

// CleanResponse removes the fields of an upstream's response that mean nothing
// beyond it.
func CleanResponse(h http.Header) {
	for _, name := range connectionTokens(h) {
		delete(h, name)
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	// An alternative of the upstream's own origin: followed by a client, it
	// would lead around the gateway or nowhere (RFC 7838).
	delete(h, "Alt-Svc")
}

// connectionTokens are the names that a Connection field lists.
func connectionTokens(h http.Header) []string {
	var names []string
	for _, value := range h["Connection"] {
		if strings.EqualFold(value, "keep-alive") || strings.EqualFold(value, "close") {
			continue
		}
		for token := range strings.SplitSeq(value, ",") {
			if token = textproto.TrimString(token); token != "" {
				names = append(names, textproto.CanonicalMIMEHeaderKey(token))
			}
		}
	}
	return names
}

// isHopByHop and isOurs look a canonical name up. The switches on the first
// byte decide most names at once: this is done for each field of each request.
func isHopByHop(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] {
	case 'C', 'K', 'P', 'T', 'U', 'H':
		return slices.Contains(hopByHop, name)
	}
	return false
}

func isOurs(name string) bool {
	if name == "" {
		return false
	}
	switch name[0] {
	case 'F', 'X', 'T':
		return slices.Contains(ours, name)
	}
	return false
}
