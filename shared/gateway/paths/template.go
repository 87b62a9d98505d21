package paths

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// errExpression is for escapes that no canonical path has.
var errExpression = errors.New("write escapes in the regular expression as paths have them: unreserved characters as they are, others in upper case, such as %C3")

// Template returns the canonical spelling of an OpenAPI path template, whose
// {name} stay as they are. It fails where no canonical path could match.
func Template(text string) (string, error) {
	var out, sample strings.Builder
	for text != "" {
		open := strings.IndexByte(text, '{')
		end := strings.IndexByte(text, '}')
		if open < 0 || end < open {
			open, end = len(text), len(text)-1 // no parameter, or none that is closed: that is for others to tell
		}
		literal, err := spellTemplate(text[:open])
		if err != nil {
			return "", err
		}
		out.WriteString(literal)
		sample.WriteString(literal)
		if end > open {
			out.WriteString(text[open : end+1])
			sample.WriteByte('x')
		}
		text = text[end+1:]
	}
	if err := possible(sample.String()); err != nil {
		return "", err
	}
	return mergeSlashes(out.String()), nil
}

// spellTemplate spells a literal, in which a brace is a mistake that stays.
func spellTemplate(text string) (string, error) {
	out := ""
	for {
		i := strings.IndexAny(text, "{}")
		if i < 0 {
			i = len(text)
		}
		literal, err := spellText(text[:i])
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

// possible says what keeps a canonical path from looking like a sample.
func possible(sample string) error {
	if isOverlong(sample) {
		return ErrOverlong
	}
	for segment := range strings.SplitSeq(sample, "/") {
		switch {
		case isDots(segment):
			return ErrDots
		case hidesDots(segment):
			return ErrHidden
		}
	}
	return nil
}

// Spell returns the canonical spelling of a part of a path, with slashes merged. What
// only the whole path shows is for Within to see.
func Spell(text string) (string, error) {
	spelled, err := spellText(text)
	return mergeSlashes(spelled), err
}

func mergeSlashes(text string) string {
	for strings.Contains(text, "//") {
		text = strings.ReplaceAll(text, "//", "/")
	}
	return text
}

// Pattern returns a URL pattern (https://urlpattern.spec.whatwg.org) whose literal
// parts are spelled as canonical paths are: the standard's own spelling keeps
// escapes as they are written. It fails where no canonical path could match, and
// leaves mistakes of syntax to the library.
func Pattern(text string) (string, error) {
	p := patternSpeller{text: text}
	for p.at < len(p.text) {
		if err := p.next(); err != nil {
			return "", err
		}
	}
	return p.out.String(), possible(p.sample.String())
}

type patternSpeller struct {
	text        string
	at          int
	out, sample strings.Builder
	afterSlash  bool // the literal before is a slash
}

// syntax copies a part of the pattern that is no literal; stand is what stands for
// it in the sample.
func (p *patternSpeller) syntax(length int, stand string) {
	p.out.WriteString(p.text[p.at : p.at+length])
	p.sample.WriteString(stand)
	p.at += length
	p.afterSlash = false
}

func (p *patternSpeller) next() error {
	switch c := p.text[p.at]; c {
	case '*':
		p.syntax(1, "x")
	case '{', '}', '?', '+':
		p.syntax(1, "")
	case ':':
		p.syntax(1+nameLength(p.text[p.at+1:]), "x")
	case '(':
		length := GroupLength(p.text[p.at:])
		if hasOddEscape(p.text[p.at : p.at+length]) {
			return errExpression
		}
		p.syntax(length, "x")
	case '\\':
		p.at++
		if p.at < len(p.text) {
			return p.literal(true)
		}
		p.out.WriteByte(c) // the library refuses it
	default:
		return p.literal(false)
	}
	return nil
}

// literal spells the byte or escape that is next. It is quoted where it might mean
// something, or go on with the name before it.
func (p *patternSpeller) literal(quoted bool) error {
	length := 1
	if p.text[p.at] == '%' {
		quoted = true
		if _, ok := escapeAt(p.text, p.at); !ok {
			return ErrEscape
		}
		length = 3
	}
	spelled, err := spellText(p.text[p.at : p.at+length])
	if err != nil {
		return err
	}
	p.at += length
	if spelled == "/" && p.afterSlash {
		return nil
	}
	p.afterSlash = spelled == "/"
	p.sample.WriteString(spelled)
	if len(spelled) == 3 {
		// What may stand as it is, $ for %24, is matched as that: of the readings
		// of a path one has it so.
		if c, _ := escapeAt(spelled, 0); is(c, plain) {
			spelled = string(rune(c))
		}
	}
	if quoted && len(spelled) == 1 && !p.afterSlash {
		p.out.WriteByte('\\')
	}
	p.out.WriteString(spelled)
	return nil
}

// nameLength returns how long the name at the beginning of text is.
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

// GroupLength returns how long the regular expression of a URL pattern is that text
// begins with, parentheses included: to the end of text if it is not closed.
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

// hasOddEscape looks for escapes that are spelled as in no canonical path.
func hasOddEscape(expression string) bool {
	for i := range len(expression) {
		if expression[i] != '%' {
			continue
		}
		if _, ok := escapeAt(expression, i); !ok {
			continue
		}
		if spelled, err := spellText(expression[i : i+3]); err != nil || spelled != expression[i:i+3] {
			return true
		}
	}
	return false
}
