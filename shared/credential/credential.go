// Package credential makes and checks the secrets that callers carry, in their
// text form: prefix_<32 base62>_<8 hex CRC-32> (contract 3.4, design section 5).
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
)

const (
	bodyDigits     = 32 // 190 bits
	checksumDigits = 8
)

// New makes a credential with a random body.
func New(prefix string, source *ids.Source) string {
	body := source.New(prefix, bodyDigits)
	return body + "_" + checksum(body)
}

// WellFormed reports whether text is a credential with the prefix and a right
// checksum. It looks nothing up.
func WellFormed(prefix, text string) bool {
	body := len(prefix) + 1 + bodyDigits
	if len(text) != body+1+checksumDigits || !strings.HasPrefix(text, prefix+"_") || text[body] != '_' {
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
