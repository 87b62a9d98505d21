package upstream

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/shared/credential"
)

// Credentials decides what of a request may not go upstream because it holds a
// key of ours: upstreams log what they get, and who reads the log could use the
// key against every route of its bucket. A key is known by its form
// (credential.Within), whatever it is good for and whatever stands around it.
type Credentials struct {
	// Texts are keys that have no form, which their owners chose, and that were
	// accepted. What else holds one of them is withheld too.
	Texts []string
}

// lists are the fields whose members are independent of each other, with what
// divides them: those members alone go that hold a key. What the gateway has
// written itself stays: without its member of Via a loop would have no end.
var lists = map[string]string{"Cookie": ";", "Via": ",", "X-Forwarded-For": ",", "Forwarded": ","}

// Header removes the fields that hold a key, with all of their values: of any other
// list that has lost a member nobody knows what it means.
func (c Credentials) Header(h http.Header) {
	for name, values := range h {
		for _, value := range values {
			if c.within(value) || name == "Authorization" && c.within(basic(value)) {
				c.remove(h, name)
				break
			}
		}
	}
}

func (c Credentials) remove(h http.Header, name string) {
	values := h[name]
	delete(h, name)
	separator, isList := lists[name]
	if !isList {
		return
	}
	for _, value := range values {
		// A key that its owner chose may hold a separator: then nothing is left.
		if value = strings.TrimSpace(c.without(value, separator)); value != "" && !c.within(value) {
			h[name] = append(h[name], value)
		}
	}
}

// Query returns a raw query without the pairs that hold a key.
func (c Credentials) Query(raw string) string {
	if len(c.Texts) == 0 && !credential.Within(raw) {
		return raw
	}
	return c.without(raw, "&")
}

// InPath reports whether an address holds a key in its path, from where it can't
// be taken: the rest would be another address.
func (c Credentials) InPath(u *url.URL) bool { return c.within(u.Path) }

// without removes the parts of a list that hold a key.
func (c Credentials) without(list, separator string) string {
	var kept []string
	for part := range strings.SplitSeq(list, separator) {
		if !c.within(part) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, separator)
}

func (c Credentials) within(text string) bool {
	if text == "" {
		return false
	}
	if credential.Within(text) {
		return true
	}
	for _, secret := range c.Texts {
		if strings.Contains(text, secret) {
			return true
		}
		// A plus is one in a key, and never a space.
		if decoded, err := url.PathUnescape(text); err == nil && strings.Contains(decoded, secret) {
			return true
		}
	}
	return false
}

// basic returns the user and password of Basic credentials (RFC 7617), "" for
// others: many clients are told a key as a user.
func basic(value string) string {
	scheme, encoded, _ := strings.Cut(strings.TrimSpace(value), " ")
	if !strings.EqualFold(scheme, "Basic") {
		return ""
	}
	encoded = strings.TrimRight(strings.TrimSpace(encoded), "=")
	decoded, err := base64.RawStdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	return string(decoded)
}
