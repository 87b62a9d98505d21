package regex

import (
	"fmt"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// space and notSpace are the characters of \s and \S within a class of RE2. RE2's own \s lacks most of them.
const (
	space = `\t-\r \x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}\x{FEFF}`

	notSpace = `\x{0}-\x{8}\x{E}-\x{1F}!-\x{9F}\x{A1}-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E}` +
		`\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{FEFE}\x{FF00}-\x{10FFFF}`
)

// escaped is what an escape stands for: a single character, or a set of characters within a class of RE2.
type escaped struct {
	char rune
	set  string // "" for a single character
}

// text returns the characters as they are written within a class.
func (e escaped) text() string {
	if e.set != "" {
		return e.set
	}
	return literal(e.char)
}

// escape reads an escape outside a class, after its backslash, which is at begin.
func (p *parser) escape(begin int) piece {
	if p.at == len(p.text) {
		p.fail(begin, `\ at the end`)
		return piece{}
	}
	switch c := p.text[p.at]; {
	case c >= '1' && c <= '9', c == 'k':
		p.refuse("has a back-reference")
		p.at++
		return piece{}
	}
	characters := p.escapedCharacters(begin)
	if characters.set != "" {
		p.refuseFoldedClass()
	}
	if p.checkOnly {
		return piece{kind: character}
	}
	return piece{kind: character, text: "[" + characters.text() + "]"}
}

// refuseFoldedClass refuses a class of characters in a group with the flag i: RE2 folds the case of each character of a
// range separately when it compiles the expression, which takes up to half a second.
func (p *parser) refuseFoldedClass() {
	if p.foldsCase {
		p.refuse("has a class of characters in a group with the flag i")
	}
}

// controls are the characters of the escapes for control characters.
var controls = map[rune]rune{'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v', '0': 0}

// escapedCharacters reads the part of an escape after its backslash, which is at begin.
func (p *parser) escapedCharacters(begin int) escaped {
	if p.at == len(p.text) {
		p.fail(begin, `\ at the end`)
		return escaped{}
	}
	switch r := p.next(); r {
	case 'd':
		return escaped{set: `0-9`}
	case 'D', 'w', 'W':
		return escaped{set: `\` + string(r)}
	case 's':
		return escaped{set: space}
	case 'S':
		return escaped{set: notSpace}
	case 'f', 'n', 'r', 't', 'v':
		return escaped{char: controls[r]}
	case '0':
		if p.at < len(p.text) && isNumber(p.text[p.at:p.at+1]) {
			p.refuse("has an octal escape")
		}
		return escaped{}
	case 'c':
		if p.at == len(p.text) || !isASCIILetter(rune(p.text[p.at])) {
			p.refuse(`has \c without a letter`)
			return escaped{}
		}
		return escaped{char: p.next() % 32}
	case 'x':
		return escaped{char: p.hexDigits(2, 'x')}
	case 'u':
		return escaped{char: p.codePoint(begin)}
	case 'p', 'P':
		return escaped{set: p.property(r)}
	default:
		if isASCIILetter(r) || r >= '1' && r <= '9' {
			p.refuse(fmt.Sprintf(`has the escape \%c, which has no meaning in ECMA-262`, r))
		}
		return escaped{char: r}
	}
}

func isASCIILetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// hexDigits reads n hexadecimal digits of the escape with a letter.
func (p *parser) hexDigits(n int, letter rune) rune {
	if digits := p.text[p.at:min(p.at+n, len(p.text))]; len(digits) == n && strings.Trim(digits, hex) == "" {
		p.at += n
		value, _ := strconv.ParseUint(digits, 16, 32)
		return rune(value) //nolint:gosec // at most four digits
	}
	p.refuse(fmt.Sprintf(`has \%c without %d hexadecimal digits`, letter, n))
	return 0
}

const hex = "0123456789abcdefABCDEF"

// codePoint reads the part of an escape such as \u00e9, \u{e9} or \ud83d\ude00 after its u. The backslash is at begin.
func (p *parser) codePoint(begin int) rune {
	rest, braced := strings.CutPrefix(p.text[p.at:], "{")
	if n := prefixLength(rest, hex); braced && n > 0 && strings.HasPrefix(rest[n:], "}") {
		value, err := strconv.ParseUint(rest[:n], 16, 32)
		if err != nil || value > unicode.MaxRune {
			p.fail(begin, "no such character")
			return 0
		}
		p.at += n + len("{}")
		return rune(value)
	}
	r := p.hexDigits(4, 'u')
	at := p.at
	if utf16.IsSurrogate(r) && p.has(`\u`) && len(p.text) >= p.at+4 && strings.Trim(p.text[p.at:p.at+4], hex) == "" {
		if pair := utf16.DecodeRune(r, p.hexDigits(4, 'u')); pair != unicode.ReplacementChar {
			return pair
		}
	}
	p.at = at
	return r
}

// maxPropertyBytes is the maximum length of the part of an escape that names a property.
const maxPropertyBytes = 64

// property reads the part of an escape such as \p{L} or \p{Script=Greek} after its p or P, and returns the characters
// for a class of RE2.
func (p *parser) property(letter rune) string {
	name, _, closed := strings.Cut(p.text[p.at:min(p.at+maxPropertyBytes, len(p.text))], "}")
	if !closed || !strings.HasPrefix(name, "{") {
		p.refuse(fmt.Sprintf(`has \%c without a property in braces`, letter))
		return literal(letter)
	}
	p.at += len(name) + len("}")
	if p.checkOnly {
		return literal(letter)
	}
	name = name[1:]
	for _, prefix := range []string{"General_Category=", "gc=", "Script=", "sc="} {
		if value, found := strings.CutPrefix(name, prefix); found {
			name = value
			break
		}
	}
	text := fmt.Sprintf(`\%c{%s}`, letter, name)
	if _, err := syntax.Parse(text, syntax.Perl); err != nil || strings.HasPrefix(name, "^") {
		p.refuse("has a property of Unicode that cannot be checked")
		return literal(letter)
	}
	return text
}

// class reads a character class after its opening bracket, which is at begin.
func (p *parser) class(begin int) string {
	p.refuseFoldedClass()
	negative := p.has("^")
	var b strings.Builder
	for !p.isDone() && p.text[p.at] != ']' {
		if p.text[p.at] == '[' && isPOSIX(p.text[p.at:]) {
			p.refuse("has a class of POSIX, which has no meaning in ECMA-262")
		}
		first := p.classAtom()
		at := p.at
		if !p.has("-") || p.isDone() || p.text[p.at] == ']' {
			p.at = at
			if !p.checkOnly {
				b.WriteString(first.text())
			}
			continue
		}
		last := p.classAtom()
		switch {
		case first.set == "" && last.set == "" && first.char > last.char:
			p.fail(at, "range out of order in a character class")
		case p.checkOnly:
		case first.set != "" || last.set != "": // the hyphen stands for itself
			b.WriteString(first.text() + literal('-') + last.text())
		default:
			b.WriteString(literal(first.char) + "-" + literal(last.char))
		}
	}
	if !p.has("]") {
		p.fail(begin, "unterminated character class")
	}
	switch {
	case b.Len() == 0 && negative:
		return `[\x{0}-\x{10FFFF}]`
	case b.Len() == 0:
		return `[^\x{0}-\x{10FFFF}]`
	case negative:
		return "[^" + b.String() + "]"
	}
	return "[" + b.String() + "]"
}

// classAtom reads one character or escape of a class.
func (p *parser) classAtom() escaped {
	begin := p.at
	switch {
	case p.has(`\b`):
		return escaped{char: '\b'}
	case p.has(`\-`):
		return escaped{char: '-'}
	case p.has(`\`):
		return p.escapedCharacters(begin)
	}
	return escaped{char: p.next()}
}

// isPOSIX reports whether a text begins with a class of POSIX such as [:alpha:].
func isPOSIX(text string) bool {
	rest, found := strings.CutPrefix(text, "[:")
	afterName := strings.TrimLeftFunc(rest, isASCIILetter)
	return found && len(afterName) < len(rest) && strings.HasPrefix(afterName, ":]")
}
