package paths

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errNonCanonicalEscape is for escapes that no canonical path has.
var errNonCanonicalEscape = errors.New("write escapes in the regular expression as paths have them: unreserved " +
	"characters as they are, others in upper case, such as %C3")

// Template returns the canonical spelling of an OpenAPI path template. Each {name} stays
// unchanged. Template returns an error if no canonical path can match the template.
func Template(text string) (string, error) {
	var out, sample strings.Builder
	for text != "" {
		start := strings.IndexByte(text, '{')
		end := strings.IndexByte(text, '}')
		if start < 0 || end < start {
			// There is no further parameter, or its brace is not closed, which the caller reports.
			start, end = len(text), len(text)-1
		}
		literal, err := normalizeLiteral(text[:start])
		if err != nil {
			return "", err
		}
		out.WriteString(literal)
		sample.WriteString(literal)
		if end > start {
			out.WriteString(text[start : end+1])
			sample.WriteByte('x')
		}
		text = text[end+1:]
	}
	if err := checkPossible(sample.String()); err != nil {
		return "", err
	}
	return mergeSlashes(out.String()), nil
}

// normalizeLiteral returns the canonical spelling of the text between
// parameters. A brace in the text is a mistake, and stays unchanged.
func normalizeLiteral(text string) (string, error) {
	out := ""
	for {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			i = len(text)
		}
		literal, err := normalizeEscapes(text[:i])
		if err != nil {
			return "", err
		}
		out += literal
		if i == len(text) {
			return out, nil
		}
		out += text[i : i+1]
		text = text[i+1:]
	}
}

// checkPossible returns an error if no canonical path can look like the sample.
// The sample is a template or pattern with a placeholder for each variable part.
func checkPossible(sample string) error {
	if isOverlong(sample) {
		return ErrOverlong
	}
	for segment := range strings.SplitSeq(sample, "/") {
		switch {
		case isDots(segment):
			return ErrDotSegment
		case hasHiddenDots(segment):
			return ErrAmbiguousDots
		}
	}
	return nil
}

// NormalizePart returns the canonical spelling of a part of a path, with slashes
// merged. It does not check properties of the whole path: use CanonicalStrict for that.
func NormalizePart(text string) (string, error) {
	normalized, err := normalizeEscapes(text)
	return mergeSlashes(normalized), err
}

func mergeSlashes(text string) string {
	for strings.Contains(text, "//") {
		text = strings.ReplaceAll(text, "//", "/")
	}
	return text
}

// Pattern returns a URL pattern (https://urlpattern.spec.whatwg.org) with the canonical spelling of its
// literal parts. The standard itself keeps escapes unchanged. Pattern returns an error if no canonical
// path can match. It does not report syntax errors, because the library that compiles the pattern does.
func Pattern(text string) (string, error) {
	p := patternNormalizer{text: text}
	for p.at < len(p.text) {
		if err := p.next(); err != nil {
			return "", err
		}
	}
	return p.out.String(), checkPossible(p.sample.String())
}

// patternNormalizer writes a URL pattern with canonical literal parts to out, and a sample of it for checkPossible.
type patternNormalizer struct {
	text        string
	at          int
	out, sample strings.Builder
	afterSlash  bool // the previous literal is a slash
}

// copySyntax copies a part of the pattern that is not a literal. The text placeholder represents it in the sample.
func (p *patternNormalizer) copySyntax(length int, placeholder string) {
	p.out.WriteString(p.text[p.at : p.at+length])
	p.sample.WriteString(placeholder)
	p.at += length
	p.afterSlash = false
}

// next writes the next part of the pattern.
func (p *patternNormalizer) next() error {
	switch c := p.text[p.at]; c {
	case '*':
		p.copySyntax(1, "x")
	case '{', '}', '?', '+':
		p.copySyntax(1, "")
	case ':':
		p.copySyntax(1+nameLength(p.text[p.at+1:]), "x")
	case '(':
		length := GroupLength(p.text[p.at:])
		if hasNonCanonicalEscape(p.text[p.at : p.at+length]) {
			return errNonCanonicalEscape
		}
		p.copySyntax(length, "x")
	case '\\':
		p.at++
		if p.at < len(p.text) {
			return p.writeLiteral(true)
		}
		p.out.WriteByte(c) // the library reports the error
	default:
		return p.writeLiteral(false)
	}
	return nil
}

// writeLiteral writes the canonical spelling of the next byte or escape. It quotes a character that could have a
// special meaning or continue the preceding name. quoted reports whether the pattern quotes the character with a
// backslash.
func (p *patternNormalizer) writeLiteral(quoted bool) error {
	length := 1
	if p.text[p.at] == '%' {
		quoted = true
		if _, ok := escapeAt(p.text, p.at); !ok {
			return ErrEscape
		}
		length = 3
	}
	normalized, err := normalizeEscapes(p.text[p.at : p.at+length])
	if err != nil {
		return err
	}
	p.at += length
	if normalized == "/" && p.afterSlash {
		return nil
	}
	p.afterSlash = normalized == "/"
	p.sample.WriteString(normalized)
	if len(normalized) == 3 {
		// Some characters can be in a path without an escape, such as $ for %24. Match such a
		// character in its plain form: one of the path's interpretations contains it in this form.
		if c, _ := escapeAt(normalized, 0); hasClass(c, plain) {
			normalized = string(rune(c))
		}
	}
	if quoted && len(normalized) == 1 && !p.afterSlash {
		p.out.WriteByte('\\')
	}
	p.out.WriteString(normalized)
	return nil
}

// nameLength returns the length of the name at the beginning of text.
func nameLength(text string) int {
	length := 0
	for length < len(text) {
		r, width := utf8.DecodeRuneInString(text[length:])
		if r != '$' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) {
			break
		}
		length += width
	}
	return length
}

// GroupLength returns the length of the regular expression at the beginning of a URL pattern,
// including its parentheses. If the parentheses are not closed, it returns the length of text.
func GroupLength(text string) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return len(text)
}

// hasNonCanonicalEscape reports whether the expression has escapes that no canonical path has.
func hasNonCanonicalEscape(expression string) bool {
	for i := range len(expression) {
		if expression[i] != '%' {
			continue
		}
		if _, ok := escapeAt(expression, i); !ok {
			continue
		}
		if normalized, err := normalizeEscapes(expression[i : i+3]); err != nil || normalized != expression[i:i+3] {
			return true
		}
	}
	return false
}
