package customdomains

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"

	"github.com/gatewright/gatewright/shared/config"
)

const (
	// challengeLabel stands before a hostname where its owner proves that it is theirs
	// (contract 2.4).
	challengeLabel = "_gatewright."
	// maxDNSChars is how long a name may be (RFC 1035, section 2.3.4, without the dot at
	// its end).
	maxDNSChars = 253
	// MaxHostnameChars is what that leaves for a hostname behind challengeLabel.
	MaxHostnameChars = maxDNSChars - len(challengeLabel)
	maxLabelChars    = 63
)

// special are the names at whose end nobody can own one in the DNS (RFC 6761, 6762, 7686, 9476
// and ICANN's .internal), and which public CAs sign nothing for.
var special = []string{"localhost", "local", "internal", "invalid", "onion", "alt", "arpa"}

// parse gives a hostname in the form in which it is stored and asked for: in lower case, with
// IDNA 2008's A-labels. wrong says what is wrong with it, "" for nothing.
func parse(text string, c config.Config) (host, wrong string) {
	switch {
	case text == "":
		return "", "is empty: name a host, such as api.example.com"
	case strings.Contains(text, "*"):
		return "", "is a wildcard: create a custom domain for each host by its own name"
	case strings.Contains(text, "://") || strings.ContainsAny(text, "/?#@"):
		return "", "is an address with more than a host: send its host name alone, such as api.example.com"
	case isAddress(text):
		return "", "is an IP address: name a host, whose DNS record leads to the address"
	case strings.Contains(text, ":"):
		return "", "has a port: leave it out, the host name is served at all ports that the gateway has"
	case strings.HasSuffix(text, ".") || strings.HasSuffix(text, "。"):
		return "", "ends with a dot: leave it out"
	}
	// Lookup maps what people type (capitals, other dots, composed letters); Registration
	// then refuses whatever is no label that could be registered.
	host, err := idna.Lookup.ToASCII(text)
	if err == nil {
		var shown string
		switch shown, err = idna.Registration.ToUnicode(host); {
		case err != nil:
		case strings.ContainsFunc(shown, unicode.IsSymbol): // which IDNA 2008 has none of, and the library lets pass
			err = errSymbol
		case mixed(shown):
			return "", "mixes letters of several scripts in one label, as names do that pretend to be others: write each label in one script"
		}
	}
	if text, tooLong := wrongLength(host); tooLong {
		return "", text
	}
	if err != nil {
		return "", "is no host name: its labels have letters, digits and hyphens, neither first nor last a hyphen, or are an internationalized name (IDNA 2008)"
	}
	return host, wrongPlace(host, c)
}

var errSymbol = errors.New("customdomains: a symbol in a hostname")

func wrongLength(host string) (wrong string, tooLong bool) {
	labels := strings.Split(host, ".")
	switch {
	case len(host) > MaxHostnameChars:
		return fmt.Sprintf("has more than %d characters: with %s before it, where its ownership is proven, the DNS takes no more", MaxHostnameChars, challengeLabel), true
	case slices.ContainsFunc(labels, func(l string) bool { return len(l) > maxLabelChars }):
		return fmt.Sprintf("has a label of more than %d characters, which is the most that the DNS takes", maxLabelChars), true
	}
	return "", false
}

// wrongPlace says why a host name that is one cannot be a custom domain.
func wrongPlace(host string, c config.Config) string {
	labels := strings.Split(host, ".")
	last := labels[len(labels)-1]
	switch {
	case slices.Contains(labels, ""):
		return "has an empty label: there is one dot between labels"
	case slices.ContainsFunc(c.OwnDomains(), func(own string) bool { return within(host, own) }):
		return "is a name of this installation's own: custom domains are names of yours"
	case slices.ContainsFunc(special, func(name string) bool { return within(host, name) }):
		return "is a name that nobody can own in the DNS: choose one of a domain of yours"
	case len(labels) == 1:
		return "has one label alone: name a host of a domain of yours, such as api.example.com"
	case last[0] >= '0' && last[0] <= '9':
		return "ends with a number, which browsers take for an IP address: name a host of a domain of yours"
	}
	return ""
}

func within(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}

// isAddress reports whether a text is an IP address, with brackets, a zone or a port.
func isAddress(text string) bool {
	if _, err := netip.ParseAddrPort(text); err == nil {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(text, "["), "]"))
	return err == nil
}

// together are the scripts that one language writes side by side: the "highly restrictive" level of
// UTS 39, section 5.2, without Latin, which no label of a domain needs beside another script.
var together = [][]string{{"Han", "Hiragana", "Katakana"}, {"Han", "Bopomofo"}, {"Han", "Hangul"}}

// mixed reports whether a label of a name has letters of scripts that no language mixes.
func mixed(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		var scripts []string
		for _, r := range label {
			if s := scriptOf(r); s != "" && !slices.Contains(scripts, s) {
				scripts = append(scripts, s)
			}
		}
		if len(scripts) > 1 && !slices.ContainsFunc(together, func(set []string) bool {
			return !slices.ContainsFunc(scripts, func(s string) bool { return !slices.Contains(set, s) })
		}) {
			return true
		}
	}
	return false
}

// scriptOf is the script of a letter, "" for what stands in all of them.
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
