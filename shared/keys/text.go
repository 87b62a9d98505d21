package keys

import (
	"strings"

	"github.com/gatewright/gatewright/shared/credential"
)

// The bounds of a key that its owner chose (contract 3.4). What is shorter can
// be guessed, what is longer does not fit into a header with others.
const (
	minKeyBytes = 16
	maxKeyBytes = 256
)

// Format says how much of a key's text a reader sees.
type Format string

// The formats of the query parameter key-format (specification 2).
const (
	None    Format = "none"
	Visible Format = "visible"
	Masked  Format = "masked"
)

// newText makes the text of a key.
func (s *Service) newText() string { return credential.New(credential.ConsumerKey, s.parts.IDs) }

// wellFormed reports whether text can be a key at all, without a request: one
// with our prefix has a right checksum, one that its owner chose has 16 to 256
// printable ASCII characters and no space.
func wellFormed(text string) bool {
	if credential.HasPrefix(credential.ConsumerKey, text) {
		return credential.WellFormed(credential.ConsumerKey, text)
	}
	return len(text) >= minKeyBytes && len(text) <= maxKeyBytes && printable(text)
}

// customKey checks a key that its owner chose.
func (p *problems) customKey(location, text string) {
	switch {
	case len(text) < minKeyBytes || len(text) > maxKeyBytes:
		p.Add(location, "has to be %d to %d characters long; leave it out to have one made", minKeyBytes, maxKeyBytes)
	case !printable(text):
		p.Add(location, "may hold printable ASCII characters only, and no space")
	case credential.HasPrefix(credential.AccountKey, text), credential.HasPrefix(credential.BucketToken, text):
		p.Add(location, "begins like a credential of another kind; choose another text")
	case credential.HasPrefix(credential.ConsumerKey, text) && !credential.WellFormed(credential.ConsumerKey, text):
		p.Add(location, "begins like a key of ours but has a wrong checksum; choose another text or leave it out to have one made")
	}
}

func printable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
