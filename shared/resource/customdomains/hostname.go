package customdomains

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/gatewright/gatewright/shared/core/config"
)

const (
	// A TXT record proves that an account owns a hostname (contract 2.4). Its name is txtRecordPrefix, followed by the
	// hostname.
	txtRecordPrefix = "_gatewright."
	// maxDNSChars is the maximum length of a DNS name (RFC 1035, section 2.3.4, without the final dot).
	maxDNSChars = 253
	// MaxHostnameChars is the maximum length of a hostname. It leaves room for txtRecordPrefix.
	MaxHostnameChars = maxDNSChars - len(txtRecordPrefix)
	maxLabelChars    = 63
)

// reservedDomains are the top-level domains where nobody can register a name (RFC 6761, 6762, 7686, 9476 and ICANN's
// .internal). Public CAs sign no certificates for them.
var reservedDomains = []string{"localhost", "local", "internal", "invalid", "onion", "alt", "arpa"}

// parseHostname returns a hostname in the form for storage and lookup: in lower case, with the A-labels of IDNA 2008.
// problem is the validation error, "" for none.
func parseHostname(text string, c config.Config) (host, problem string) {
	switch {
	case text == "":
		return "", "is empty: name a host, such as api.example.com"
	case strings.Contains(text, "*"):
		return "", "is a wildcard: create a custom domain for each host by its own name"
	case strings.Contains(text, "://") || strings.ContainsAny(text, "/?#@"):
		return "", "is an address with more than a host: send its host name alone, such as api.example.com"
	case isIPAddress(text):
		return "", "is an IP address: name a host, whose DNS record leads to the address"
	case strings.Contains(text, ":"):
		return "", "has a port: leave it out, the host name is served at all ports that the gateway has"
	case strings.HasSuffix(text, ".") || strings.HasSuffix(text, "。"):
		return "", "ends with a dot: leave it out"
	}
	// idna.Lookup normalizes what users type: capitals, ideographic full stops, decomposed letters. idna.Registration then
	// rejects labels that cannot be registered.
	host, err := idna.Lookup.ToASCII(text)
	if err == nil {
		var unicodeName string
		switch unicodeName, err = idna.Registration.ToUnicode(host); {
		case err != nil:
		case strings.ContainsFunc(unicodeName, unicode.IsSymbol): // IDNA 2008 allows no symbols, but the library accepts them
			err = errSymbol
		case mixesScripts(unicodeName):
			return "", "mixes letters of several scripts in one label, as names do that pretend to be others: write each " +
				"label in one script"
		}
	}
	if text, tooLong := lengthProblem(host); tooLong {
		return "", text
	}
	if err != nil {
		return "", "is no host name: its labels have letters, digits and hyphens, neither first nor last a hyphen, or are " +
			"an internationalized name (IDNA 2008)"
	}
	return host, domainProblem(host, c)
}

var errSymbol = errors.New("customdomains: a symbol in a hostname")

func lengthProblem(host string) (problem string, tooLong bool) {
	labels := strings.Split(host, ".")
	switch {
	case len(host) > MaxHostnameChars:
		return fmt.Sprintf("has more than %d characters: with %s before it, where its ownership is proven, the DNS "+
			"takes no more", MaxHostnameChars, txtRecordPrefix), true
	case slices.ContainsFunc(labels, func(l string) bool { return len(l) > maxLabelChars }):
		return fmt.Sprintf("has a label of more than %d characters, which is the most that the DNS takes", maxLabelChars),
			true
	}
	return "", false
}

// domainProblem returns the reason why a valid hostname cannot be a custom domain, "" for none.
func domainProblem(host string, c config.Config) string {
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case slices.Contains(labels, ""):
		return "has an empty label: there is one dot between labels"
	case slices.ContainsFunc(c.OwnDomains(), func(domain string) bool { return inDomain(host, domain) }):
		return "is a name of this installation's own: custom domains are names of yours"
	case slices.ContainsFunc(reservedDomains, func(name string) bool { return inDomain(host, name) }):
		return "is a name that nobody can own in the DNS: choose one of a domain of yours"
	case len(labels) == 1:
		return "has one label alone: name a host of a domain of yours, such as api.example.com"
	case last[0] >= '0' && last[0] <= '9':
		return "ends with a number, which browsers take for an IP address: name a host of a domain of yours"
	}
	return ""
}

func inDomain(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// isIPAddress reports whether a text is an IP address, with or without brackets, a zone or a port.
func isIPAddress(text string) bool {
	if _, err := netip.ParseAddrPort(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return err == nil
}

// compatibleScripts are the sets of scripts that one language mixes. This is the "highly restrictive" level of UTS 39,
// section 5.2, except that Latin must not be mixed with another script: no language needs that in a domain label.
var compatibleScripts = [][]string{{"Han", "Hiragana", "Katakana"}, {"Han", "Bopomofo"}, {"Han", "Hangul"}}

// mixesScripts reports whether a label of a name has letters of scripts that no language mixes.
func mixesScripts(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		var scripts []string
		for _, r := range label {
			if s := scriptOf(r); s != "" && !slices.Contains(scripts, s) {
				scripts = append(scripts, s)
			}
		}
		if len(scripts) > 1 && !slices.ContainsFunc(compatibleScripts, func(allowed []string) bool {
			return !slices.ContainsFunc(scripts, func(s string) bool { return !slices.Contains(allowed, s) })
		}) {
			return true
		}
	}
	return false
}

// scriptOf returns the script of a letter, or "" for a character that all scripts share.
func scriptOf(r rune) string {
	if unicode.In(r, unicode.Common, unicode.Inherited) {
		return ""
	}
	for name, table := range unicode.Scripts {
		if unicode.Is(table, r) {
			return name
		}
	}
	return ""
}
