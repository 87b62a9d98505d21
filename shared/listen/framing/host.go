package framing

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ValidHost reports whether text is a host with or without a port, and nothing
// else: uri-host [ ":" port ] of RFC 9110, section 7.2, without escapes, zones and
// future kinds of addresses, which no two programs read alike. A host is at most as long as a name in the DNS.
func ValidHost(text string) bool {
	if len(text) > maxHostBytes {
		return false
	}
	if strings.HasPrefix(text, "[") {
		end := strings.IndexByte(text, ']')
		if end < 0 {
			return false
		}
		// A copy for its error keeps text, most often a part of a buffer, off the heap.
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

// HostName gives the host of a valid one in the form that hosts are known by: in lower case,
// without a port, brackets, and a dot at its end.
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

// validPort: an empty one is the scheme's own (RFC 3986, section 3.2.3).
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
