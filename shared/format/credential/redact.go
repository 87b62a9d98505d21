package credential

import (
	"net/url"
	"strings"
)

// replacement is the text that replaces a credential in Redact.
const replacement = "withheld"

// minDigits is the minimum number of digits after a prefix for a text to count as a credential: half of a body. Shorter
// texts are names that happen to begin with a prefix (a cookie "gwa_id"). If a credential is truncated to fewer digits,
// the missing digits have at least 95 bits.
const minDigits = bodyDigits / 2

// Contains reports whether text contains anything that looks like one of our credentials: whole, mistyped, truncated or
// percent-encoded. Callers use it to decide whether a text can leave the process, so a credential with an invalid
// checksum counts too. A credential directly after a letter or a digit must have a valid checksum, because nothing else
// distinguishes it from a part of a word. To check a caller's credential, use WellFormed. The time is linear in the
// length of text.
func Contains(text string) bool {
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

// Redact returns text with each credential replaced, for logs and problem
// documents. A text with a percent-encoded credential is returned decoded.
func Redact(text string) string {
	// Decoding can reveal a credential that was encoded twice. Each iteration makes the text shorter.
	for Contains(text) {
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
			b.WriteString(replacement)
			text = text[end:]
		}
		text = b.String()
	}
	return text
}

// find returns the range of the first credential in text, or 0 and 0 if there is none. The range includes all letters,
// digits and underscores that follow the prefix without a gap.
func find(text string) (begin, end int) {
	for offset := 0; ; {
		next := strings.Index(text[offset:], "gw")
		if next < 0 {
			return 0, 0
		}
		begin = offset + next
		offset = begin + len("gw")
		if !hasAnyPrefix(text[begin:]) {
			continue
		}
		end = begin + len(AccountKey+"_")
		first := end
		for end < len(text) && isAlphanumeric(text[end]) {
			end++
		}
		// Within a word, only a valid checksum distinguishes a credential from other text.
		if end-first < minDigits || begin > 0 && isAlphanumeric(text[begin-1]) && !startsWellFormed(text[begin:]) {
			continue
		}
		for end < len(text) && (isAlphanumeric(text[end]) || text[end] == '_') {
			end++
		}
		return begin, end
	}
}

// hasAnyPrefix reports whether text begins like a credential of any kind.
func hasAnyPrefix(text string) bool {
	return HasPrefix(AccountKey, text) || HasPrefix(ConsumerKey, text) || HasPrefix(BucketToken, text) ||
		HasPrefix(SessionToken, text)
}

// startsWellFormed reports whether text, which has a prefix, begins with a whole credential with a valid checksum.
// Any text can follow.
func startsWellFormed(text string) bool {
	prefix := text[:len(AccountKey)]
	size := length(prefix)
	return len(text) >= size && WellFormed(prefix, text[:size])
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// decode returns text without percent-encoding. It returns false if text has no percent sign.
func decode(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 {
		return "", false
	}
	if decoded, err := url.PathUnescape(text); err == nil {
		return decoded, true
	}
	// Decode the valid escapes even if one is invalid.
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
