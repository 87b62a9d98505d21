package customdomains

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/core/config"
)

var testConfig = config.Config{
	DeploymentURL: "https://{deployment}.apis.gatewright.example",
	APIDomain:     "API.gatewright.example",
}

// longHostname returns a name of n characters.
func longHostname(n int) string {
	const end = ".example.com"
	text := strings.Repeat(strings.Repeat("a", 49)+".", n/50+1)
	return strings.Trim(text[len(text)-1-(n-len(end)):len(text)-1], ".") + end
}

func TestParseHostname(t *testing.T) {
	for _, tt := range []struct{ name, in, want, wantProblem string }{
		{"a name", "api.example.com", "api.example.com", ""},
		{"capitals", "API.Example.COM", "api.example.com", ""},
		{"a digit first", "1.example.com", "1.example.com", ""},
		{"a second level", "example.com", "example.com", ""},
		{"German", "bücher.example", "xn--bcher-kva.example", ""},
		{"a name in Punycode", "xn--bcher-kva.example", "xn--bcher-kva.example", ""},
		{"a sharp s, which stays", "straße.example", "xn--strae-oqa.example", ""},
		{"composed letters", "bu\u0308cher.example", "xn--bcher-kva.example", ""},
		{"fullwidth letters", "ａｐｉ.example", "api.example", ""},
		{"ideographic full stops", "api。example。com", "api.example.com", ""},
		{"Japanese, in three scripts", "日本のカメラ.example", "xn--u9jugmg6a2367ccvb.example", ""},
		{"Greek below a Latin top-level domain", "παράδειγμα.example", "xn--hxajbheg2az3al.example", ""},
		{"Chinese with Bopomofo", "ㄅ中.example", "xn--5ekt19f.example", ""},
		{"Korean with Han", "한中.example", "xn--fiqs904a.example", ""},
		{"a label of 63 characters", strings.Repeat("a", 63) + ".example.com", strings.Repeat("a", 63) + ".example.com", ""},
		{"the longest hostname", longHostname(MaxHostnameChars), longHostname(MaxHostnameChars), ""},

		{"an empty name", "", "", "is empty"},
		{"a wildcard", "*.example.com", "", "wildcard"},
		{"a dot at the end", "api.example.com.", "", "ends with a dot"},
		{"an ideographic full stop at the end", "api.example.com。", "", "ends with a dot"},
		{"254 characters", longHostname(254), "", "more than 241 characters"},
		{"one character too many", longHostname(MaxHostnameChars + 1), "", "more than 241 characters"},
		{"a long label", strings.Repeat("a", 64) + ".example.com", "", "more than 63 characters"},
		{"an IPv4 address", "192.0.2.1", "", "IP address"},
		{"an IPv4 address with a port", "192.0.2.1:443", "", "IP address"},
		{"an IPv6 address", "2001:db8::1", "", "IP address"},
		{"an IPv6 address in brackets", "[2001:db8::1]", "", "IP address"},
		{"an IPv6 address with a port", "[2001:db8::1]:443", "", "IP address"},
		{"a hexadecimal IPv4 address", "0x7f.1", "", "number"},
		{"a number", "127.1", "", "number"},
		{"a port", "api.example.com:443", "", "port"},
		{"a URL", "https://api.example.com", "", "address with more than a host"},
		{"a path", "api.example.com/v1", "", "address with more than a host"},
		{"a user", "me@example.com", "", "address with more than a host"},
		{"one label", "intranet", "", "one label"},
		{"two dots", "api..example.com", "", ""},
		{"a dot first", ".example.com", "", ""},
		{"an underscore", "_acme-challenge.example.com", "", "no host name"},
		{"a space", "api example.com", "", "no host name"},
		{"a line break", "api.example.com\nx", "", "no host name"},
		{"a hyphen first", "-api.example.com", "", "no host name"},
		{"a hyphen last", "api-.example.com", "", "no host name"},
		{"an emoji", "☃.example.com", "", "no host name"},
		{"bad Punycode", "xn--99999999999.example.com", "", "no host name"},
		{"not UTF-8", "\xff.example.com", "", "no host name"},
		{"Latin and Cyrillic", "pаypal.example.com", "", "mixes letters of several scripts"},
		{"Latin and Cyrillic in Punycode", "xn--pypal-4ve.example.com", "", "mixes letters of several scripts"},
		{"Greek and Latin", "gοogle.example.com", "", "mixes letters of several scripts"},
		{"a deployment's host", "shop-main-0123abc.apis.gatewright.example", "", "this installation's own"},
		{"the installation's domain", "apis.gatewright.example", "", "this installation's own"},
		{"a name below the installation's domain", "a.b.APIS.gatewright.example", "", "this installation's own"},
		{"the API's host", "api.gatewright.example", "", "this installation's own"},
		{"a name that ends like the installation's domain", "myapis.gatewright.example", "myapis.gatewright.example", ""},
		{"localhost", "localhost", "", "nobody can own"},
		{"a name of mDNS", "printer.local", "", "nobody can own"},
		{"a private name", "api.internal", "", "nobody can own"},
		{"a name below invalid", "api.invalid", "", "nobody can own"},
		{"a name of Tor", "api.onion", "", "nobody can own"},
		{"a name outside DNS", "api.alt", "", "nobody can own"},
		{"a name below localhost", "api.localhost", "", "nobody can own"},
		{"a name of reverse look-ups", "1.2.0.192.in-addr.arpa", "", "nobody can own"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, problem := parseHostname(tt.in, testConfig)
			switch {
			case tt.want != "" && (got != tt.want || problem != ""):
				t.Errorf("parseHostname(%q) = %q, problem %q, want %q without a problem", tt.in, got, problem, tt.want)
			case tt.want == "" && (problem == "" || !strings.Contains(problem, tt.wantProblem)):
				t.Errorf("parseHostname(%q) = %q, problem %q, want a problem with %q", tt.in, got, problem, tt.wantProblem)
			}
		})
	}
}

// TestParseHostnameIsIdempotent checks that parsing a parsed hostname does not change it. A parsed hostname must be in
// lowercase ASCII, contain a dot, and have at most MaxHostnameChars characters.
func TestParseHostnameIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(),
			rapid.StringMatching(`[a-zäаα0-9-]{1,30}\.[A-Za-z0-9ß-]{1,20}\.(com|example)`)).Draw(t, "hostname")
		host, problem := parseHostname(text, testConfig)
		if problem != "" {
			return
		}
		if second, problem := parseHostname(host, testConfig); second != host || problem != "" {
			t.Errorf("parseHostname(%q) = %q, and parsed again %q, %q, want the same without problem",
				text, host, second, problem)
		}
		if len(host) > MaxHostnameChars || strings.Trim(host, "abcdefghijklmnopqrstuvwxyz0123456789-.") != "" ||
			!strings.Contains(host, ".") {
			t.Errorf("parseHostname(%q) = %q, want a lowercase name with a dot and at most %d characters",
				text, host, MaxHostnameChars)
		}
	})
}
