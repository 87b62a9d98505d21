package keys

import (
	"strings"

	"github.com/gatewright/gatewright/shared/format/credential"
)

// The minimum and maximum length of a key that its owner chose (contract 3.4). A shorter key could be guessed, and a
// longer key might not fit into a request's headers.
const (
	minKeyBytes = 16
	maxKeyBytes = 256
)

// Format says how much of a key's text is shown.
type Format string

// The values of the query parameter key-format (specification 2).
const (
	None    Format = "none"
	Visible Format = "visible"
	Masked  Format = "masked"
)

// newText generates the text of a key.
func (s *Service) newText() string { return credential.New(credential.ConsumerKey, s.parts.IDs) }

// wellFormed reports whether text can be a key, without a look-up. A text with the prefix of generated keys must have a
// valid checksum. Any other text must have 16 to 256 printable ASCII characters without spaces.
func wellFormed(text string) bool {
	if credential.HasPrefix(credential.ConsumerKey, text) {
		return credential.WellFormed(credential.ConsumerKey, text)
	}
	return len(text) >= minKeyBytes && len(text) <= maxKeyBytes && printable(text)
}

// customKey adds an error if text is not valid for a key that its owner chose. location names the field.
func (p *problems) customKey(location, text string) {
	switch {
	case len(text) < minKeyBytes || len(text) > maxKeyBytes:
		p.Add(location, "has to be %d to %d characters long; leave it out to have one made", minKeyBytes, maxKeyBytes)
	case !printable(text):
		p.Add(location, "may hold printable ASCII characters only, and no space")
	case credential.HasPrefix(credential.AccountKey, text), credential.HasPrefix(credential.BucketToken, text):
		p.Add(location, "begins like a credential of another kind; choose another text")
	case credential.HasPrefix(credential.ConsumerKey, text) && !credential.WellFormed(credential.ConsumerKey, text):
		p.Add(location, "begins like a key of ours but has a wrong checksum; choose another text or leave it out to "+
			"have one made")
	}
}

func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
