package credential

import (
	"net/url"
	"strings"
)

// withheld stands where Redact has taken a credential out of a text.
const withheld = "withheld"

// minBody is how many digits after a prefix make a credential of a text: half of
// a body. Shorter rests are names that begin like ours (a cookie "gwa_id"), and
// what is missing of a real one then has 95 bits or more.
const minBody = bodyDigits / 2

// Within reports whether text holds what looks like a credential of ours
// anywhere: whole, mistyped, cut off, or with characters percent-encoded. It is
// what decides that a text may not leave the process, so it asks for no right
// checksum but right behind a letter or a digit, where only a checksum tells a
// credential from a word; whoever asks whether one opens something asks WellFormed.
// The time is linear in the text.
func Within(text string) bool {
	if _, end := find(text); end > 0 {
		return true
	}
	decoded, ok := decode(text)
	if !ok {
		return false
	}
	_, end := find(decoded)
	return end > 0
}

// Redact returns text with each credential in it replaced, for logs and problem
// documents. A text that hides one behind percent-encoding comes back decoded.
func Redact(text string) string {
	// Decoding may bring one to light that was encoded twice: each turn makes
	// the text shorter.
	for Within(text) {
		if decoded, ok := decode(text); ok {
			if _, end := find(decoded); end > 0 {
				text = decoded
			}
		}
		var b strings.Builder
		for {
			begin, end := find(text)
			b.WriteString(text[:begin])
			if end == 0 {
				b.WriteString(text)
				break
			}
			b.WriteString(withheld)
			text = text[end:]
		}
		text = b.String()
	}
	return text
}

// find returns where the first credential in text stands, 0 and 0 for none. It
// ends with the last letter, digit or underscore.
func find(text string) (begin, end int) {
	for at := 0; ; {
		next := strings.Index(text[at:], "gw")
		if next < 0 {
			return 0, 0
		}
		begin = at + next
		at = begin + len("gw")
		if !hasAnyPrefix(text[begin:]) {
			continue
		}
		end = begin + len(AccountKey+"_")
		first := end
		for end < len(text) && isDigit(text[end]) {
			end++
		}
		// Within a word it may be any text: there the checksum tells.
		if end-first < minBody || begin > 0 && isDigit(text[begin-1]) && !beginsWellFormed(text[begin:]) {
			continue
		}
		for end < len(text) && (isDigit(text[end]) || text[end] == '_') {
			end++
		}
		return begin, end
	}
}

// hasAnyPrefix reports whether text begins like a credential of any kind.
func hasAnyPrefix(text string) bool {
	return HasPrefix(AccountKey, text) || HasPrefix(ConsumerKey, text) || HasPrefix(BucketToken, text) || HasPrefix(SessionToken, text)
}

// beginsWellFormed reports whether text, which has a prefix, begins with a whole
// credential whose checksum is right, whatever follows.
func beginsWellFormed(text string) bool {
	prefix := text[:len(AccountKey)]
	whole := length(prefix)
	return len(text) >= whole && WellFormed(prefix, text[:whole])
}

func isDigit(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// decode returns text without percent-encoding; false where it has none.
func decode(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 {
		return "", false
	}
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded, true
	}
	// One broken escape does not hide the others.
	var b strings.Builder
	for text != "" {
		before, after, found := strings.Cut(text, "%")
		b.WriteString(before)
		if !found {
			break
		}
		if text = after; len(after) < 2 {
			b.WriteByte('%')
			continue
		}
		c, err := url.PathUnescape("%" + after[:2])
		if err != nil {
			b.WriteByte('%')
			continue
		}
		b.WriteString(c)
		text = after[2:]
	}
	return b.String(), true
}
