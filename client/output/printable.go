package output

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// isPrintable reports whether a character can be written to a terminal: it is printable and does not move other text.
// The joiner and the variation selectors are allowed, because emoji contain them.
func isPrintable(r rune) bool {
	const joiner = '\u200d'
	return unicode.IsPrint(r) || r == joiner || unicode.Is(unicode.Variation_Selector, r)
}

// Printable returns untrusted text for a terminal, on one line. It escapes bytes that are not UTF-8, and characters
// that are not printable, such as control characters and characters that change the direction of text. The escapes are
// those of Go, such as \x1b, \n and \u202e.
func Printable(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !isPrintable(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		size := utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case isPrintable(r):
			b.WriteString(text[i : i+size])
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// PrintableLines is like Printable, but keeps line breaks.
func PrintableLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

// escape escapes the characters in a JSON text that could control a terminal. Such characters only occur in strings,
// where the escape means the same character. A byte that is not UTF-8 is replaced with U+FFFD, like in JSON decoders,
// because some terminals interpret such bytes.
func escape(document []byte) []byte {
	if utf8.Valid(document) && !bytes.ContainsFunc(document, mustEscape) {
		return document
	}
	var b bytes.Buffer
	for _, r := range string(document) {
		switch {
		case !mustEscape(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(surrogates(r))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// mustEscape reports whether a character is escaped in a document: the characters that isPrintable excludes, except
// line breaks.
func mustEscape(r rune) bool { return !isPrintable(r) && r != '\n' }
