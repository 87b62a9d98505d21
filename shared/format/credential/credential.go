// Package credential creates and validates the secrets of callers in their text form: prefix_<32 base62>_<8 hex CRC-32>
// (contract 3.4, design section 5). Session tokens have 43 digits instead of 32. A scanner finds a credential by its
// prefix and checksum, and the API refuses a mistyped credential without reading a table. Because it has underscores
// instead of dashes, a double-click selects the whole credential.
//
// Read this file first; redact.go finds credentials in other texts.
package credential

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"

	"github.com/gatewright/gatewright/shared/base/ids"
)

// The prefixes of our credentials.
const (
	// AccountKey is the prefix of keys for the management API.
	AccountKey = "gwa"
	// ConsumerKey is the prefix of keys for a gateway's routes.
	ConsumerKey = "gwk"
	// BucketToken is the prefix of tokens for a key bucket.
	BucketToken = "gwb"
	// SessionToken is the prefix of a session's token for the management API, in a browser's cookie.
	// The token has 43 digits instead of 32.
	SessionToken = "gws"
)

// SessionCookie is the name of the cookie with a session's token. Browsers accept a cookie with the prefix "__Host-"
// only from its own host, only over HTTPS and only for all paths (draft-ietf-httpbis-rfc6265bis, section 4.1.3.2):
// no other host can set it.
const SessionCookie = "__Host-gatewright-session"

const (
	bodyDigits     = 32 // 190 bits
	sessionDigits  = 43 // 256 bits
	checksumDigits = 8
)

// digits returns the number of random digits of a credential with the prefix.
func digits(prefix string) int {
	if prefix == SessionToken {
		return sessionDigits
	}
	return bodyDigits
}

// length returns the length of a credential with the prefix, in bytes.
func length(prefix string) int { return len(prefix) + 1 + digits(prefix) + 1 + checksumDigits }

// New returns a credential with a random body.
func New(prefix string, source *ids.Source) string {
	body := source.New(prefix, digits(prefix))
	return body + "_" + checksum(body)
}

// WellFormed reports whether text is a credential with the prefix and a valid checksum. It does not read any table.
func WellFormed(prefix, text string) bool {
	body := len(prefix) + 1 + digits(prefix)
	if len(text) != length(prefix) || !strings.HasPrefix(text, prefix+"_") || text[body] != '_' {
		return false
	}
	for _, c := range []byte(text[len(prefix)+1 : body]) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return text[body+1:] == checksum(text[:body])
}

// HasPrefix reports whether text begins like a credential with the prefix.
func HasPrefix(prefix, text string) bool { return strings.HasPrefix(text, prefix+"_") }

func checksum(body string) string {
	var sum [checksumDigits / 2]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(body)))
	return hex.EncodeToString(sum[:]) // fmt would take twice as long, for each request with a key
}

// Suffix returns the part of a secret text that its masked form shows: the
// last 8 characters, or the last 4 if it has fewer than 16 (contract 3.4).
func Suffix(text string) string {
	const shortLength = 16
	shown := 8
	if len(text) < shortLength {
		shown = 4
	}
	return text[max(0, len(text)-shown):]
}

// Masked returns the masked form of a text with this suffix.
func Masked(suffix string) string { return "****" + suffix }
