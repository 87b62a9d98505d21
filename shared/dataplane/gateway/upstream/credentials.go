package upstream

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/shared/format/credential"
)

// Credentials finds Gatewright's API keys in a request for an upstream, so that they are not sent. Upstreams log
// requests, and anyone with access to the log could use the key for every route of its bucket. Credentials recognizes a
// key by its form (credential.Contains), anywhere in the header, the trailer, the query and the path, even if the key
// is not valid. It does not read the body.
type Credentials struct {
	// Texts has accepted keys that their owners chose, and which have no recognizable
	// form. Everything that contains one of these texts is also removed.
	Texts []string
}

// separators has the fields with independent members, and the separators of the members.
// From these fields, only the members with a key are removed. The members that the
// gateway has added must stay: without its member of Via, a loop would not be detected.
var separators = map[string]string{"Cookie": ";", "Via": ",", "X-Forwarded-For": ",", "Forwarded": ","}

// Header removes the fields that contain a key, with all their values. From the fields in separators, it removes only
// the members that contain a key. Other fields are removed as a whole, because a list without one of its members could
// have another meaning.
func (c Credentials) Header(h http.Header) {
	for name, values := range h {
		for _, value := range values {
			if c.containsKey(value) || name == "Authorization" && c.containsKey(decodeBasic(value)) {
				c.remove(h, name)
				break
			}
		}
	}
}

func (c Credentials) remove(h http.Header, name string) {
	values := h[name]
	delete(h, name)
	separator, isList := separators[name]
	if !isList {
		return
	}
	for _, value := range values {
		// A key that its owner chose can contain the separator. Then remove the whole value.
		if value = strings.TrimSpace(c.removeParts(value, separator)); value != "" && !c.containsKey(value) {
			h[name] = append(h[name], value)
		}
	}
}

// Query returns a raw query without the pairs that contain a key.
func (c Credentials) Query(raw string) string {
	if len(c.Texts) == 0 && !credential.Contains(raw) {
		return raw
	}
	return c.removeParts(raw, "&")
}

// InPath reports whether the path of an address contains a key. A key
// can't be removed from a path, because the rest would be another address.
func (c Credentials) InPath(u *url.URL) bool { return c.containsKey(u.Path) }

// removeParts returns a list without the parts that contain a key.
func (c Credentials) removeParts(list, separator string) string {
	var kept []string
	for part := range strings.SplitSeq(list, separator) {
		if !c.containsKey(part) {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, separator)
}

func (c Credentials) containsKey(text string) bool {
	if text == "" {
		return false
	}
	if credential.Contains(text) {
		return true
	}
	for _, secret := range c.Texts {
		if strings.Contains(text, secret) {
			return true
		}
		// Use PathUnescape, because a "+" in a key never means a space.
		if decoded, err := url.PathUnescape(text); err == nil && strings.Contains(decoded, secret) {
			return true
		}
	}
	return false
}

// decodeBasic returns the user and password of Basic credentials (RFC
// 7617), "" for another scheme. Many clients send a key as the user.
func decodeBasic(value string) string {
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
