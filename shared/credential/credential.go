// Package credential makes and checks the secrets that callers carry, in their
// text form: prefix_<32 base62>_<8 hex CRC-32> (contract 3.4, design section 5), of sessions with 43 digits.
// A scanner finds one by its prefix and checksum, and an edge refuses a mistyped
// one without reading the table. Underscores let a double-click select all of it.
//
// Read this file; within.go finds credentials in other texts.
package credential

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strings"

	"github.com/gatewright/gatewright/shared/ids"
)

// The prefixes of our credentials.
const (
	// AccountKey opens the management API.
	AccountKey = "gwa"
	// ConsumerKey opens a gateway's routes.
	ConsumerKey = "gwk"
	// BucketToken connects to a key bucket.
	BucketToken = "gwb"
	// SessionToken is a session's of the management API, in the cookie of a browser. It has 43 digits rather than 32.
	SessionToken = "gws"
)

// SessionCookie has a session's token. Browsers take a cookie of such a name from its own host by HTTPS alone, for
// all paths (draft-ietf-httpbis-rfc6265bis, section 4.1.3.2): no name beside the API's can set it.
const SessionCookie = "__Host-gatewright-session"

const (
	bodyDigits     = 32 // 190 bits
	sessionDigits  = 43 // 256 bits
	checksumDigits = 8
)

// digits is how many random ones a credential with the prefix has.
func digits(prefix string) int {
	if prefix == SessionToken {
		return sessionDigits
	}
	return bodyDigits
}

// length is that of a whole credential with the prefix, in bytes.
func length(prefix string) int { return len(prefix) + 1 + digits(prefix) + 1 + checksumDigits }

// New makes a credential with a random body.
func New(prefix string, source *ids.Source) string {
	body := source.New(prefix, digits(prefix))
	return body + "_" + checksum(body)
}

// WellFormed reports whether text is a credential with the prefix and a right
// checksum. It looks nothing up.
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

// HasPrefix reports whether text claims to be a credential with the prefix.
func HasPrefix(prefix, text string) bool { return strings.HasPrefix(text, prefix+"_") }

func checksum(body string) string {
	var sum [checksumDigits / 2]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE([]byte(body)))
	return hex.EncodeToString(sum[:]) // fmt would take twice as long, for each request with a key
}

// Suffix is the part of a secret text that a masked one shows: its last 8 characters, or 4 of one with fewer
// than 16 (contract 3.4).
func Suffix(text string) string {
	const short = 16
	shown := 8
	if len(text) < short {
		shown = 4
	}
	return text[max(0, len(text)-shown):]
}

// Masked is a text of which only the suffix is shown.
func Masked(suffix string) string { return "****" + suffix }
