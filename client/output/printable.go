package output

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// shown reports whether a terminal may be sent a character: it prints something, and has what follows stay where it is. The
// joiner and the selectors within an emoji are.
func shown(r rune) bool {
	const joiner = '\u200d'
	return unicode.IsPrint(r) || r == joiner || unicode.Is(unicode.Variation_Selector, r)
}

// Printable is a text of somebody else's for a terminal, on one line: what controls it, and what turns the direction of
// reading round, is shown as Go writes it in a text, such as \x1b, \n and \u202e.
func Printable(text string) string {
	if utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		size := utf8.RuneLen(r)
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(text[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case shown(r):
			b.WriteString(text[i : i+size])
		default:
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		}
	}
	return b.String()
}

// PrintableLines is the same for a text whose lines are to stay.
func PrintableLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = Printable(line)
	}
	return strings.Join(lines, "\n")
}

// escaped has a text in JSON say by number what a terminal would act on. Such characters are in strings alone, and there it
// means the same. A byte that is no UTF-8 becomes U+FFFD, as who reads JSON takes it: some terminals act on it.
func escaped(document []byte) []byte {
	if utf8.Valid(document) && !bytes.ContainsFunc(document, hidden) {
		return document
	}
	var b bytes.Buffer
	for _, r := range string(document) {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			b.WriteString(surrogates(r))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// hidden is what is escaped in a document: what is not shown, but for the ends of its lines.
func hidden(r rune) bool { return !shown(r) && r != '\n' }
