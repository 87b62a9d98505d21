package framing

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ValidHost reports whether text is a host with or without a port: uri-host [ ":" port ] of RFC 9110, section 7.2. It
// refuses escapes, zones and IPvFuture addresses, because programs interpret them differently. A host is at most as
// long as a name in the DNS.
func ValidHost(text string) bool {
	if len(text) > maxHostBytes {
		return false
	}
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return false
		}
		// An error of ParseAddr keeps its text. With a copy, the original, which is often a part of a buffer, does
		// not escape to the heap.
		if a, err := netip.ParseAddr(strings.Clone(text[1:end])); err != nil || !a.Is6() || a.Zone() != "" {
			return false
		}
		port, ok := strings.CutPrefix(text[end+1:], ":")
		return (ok || port == "") && validPort(port)
	}
	host, port, _ := strings.Cut(text, ":")
	if !validPort(port) {
		return false
	}
	for i := range len(host) {
		if c := host[i]; !isLetter(c) && !isDigit(c) && strings.IndexByte("-._~!$&'()*+,;=", c) < 0 {
			return false
		}
	}
	return host != ""
}

// HostName returns a valid host in normalized form: lower case, without a port, brackets or a dot at the end.
func HostName(text string) string {
	host := text
	if strings.Contains(text, ":") {
		if name, _, err := net.SplitHostPort(text); err == nil {
			host = name
		}
	}
	host = strings.Trim(host, "[]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// validPort reports whether text is a port. An empty port is the scheme's default (RFC 3986, section 3.2.3).
func validPort(text string) bool {
	if text == "" {
		return true
	}
	for i := range len(text) {
		if !isDigit(text[i]) {
			return false
		}
	}
	_, err := strconv.ParseUint(text, 10, 16)
	return err == nil
}
