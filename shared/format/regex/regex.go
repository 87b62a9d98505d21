// Package regex compiles regular expressions of ECMA-262, the syntax of JSON Schema and OpenAPI, for checks in linear
// time. It translates an expression to the syntax of RE2, whose matcher never backtracks. Some expressions cannot be
// translated, such as those with back-references. Compile reports them (UnsupportedError), and callers accept every
// text in their place.
//
// Expressions are read with Unicode characters, as the flag u does, and with the older syntax that ECMA-262 allows
// without this flag (appendix B.1.2), such as "[\w\-]": JSON Schema recommends the first, and many authors use the
// second. Read this file first, then parse.go; class.go has escapes and character classes.
package regex

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"unicode/utf8"
)

// Bounds of the expressions that are compiled. RE2 compiles x{1000} and (x{31}){30} to a thousand instructions each,
// and can try each instruction on each character. HTML's pattern for e-mail addresses has 259 instructions. Up to 500
// instructions, RE2 can use its fast algorithms.
const (
	// MaxBytes is the maximum length of an expression.
	MaxBytes = 256
	// MaxInstructions is the maximum number of RE2 instructions of an expression.
	MaxInstructions = 500
)

// SyntaxError says that a text is no regular expression of ECMA-262. Character is where the mistake is; the first
// character is 1.
type SyntaxError struct {
	Reason    string
	Character int
}

// Error implements error.
func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at character %d", e.Reason, e.Character) }

// UnsupportedError says why an expression is not compiled, although it may be one of ECMA-262. Reason is a sentence
// about the expression without its subject: "has a back-reference".
type UnsupportedError struct{ Reason string }

// Error implements error.
func (e *UnsupportedError) Error() string { return "the regular expression " + e.Reason }

// Regexp is a compiled regular expression. It is safe for concurrent use.
type Regexp struct {
	text string
	// all have to match, and none of the expressions in not may match.
	all, not []*regexp.Regexp
	// minRunes and maxRunes bound the number of characters of a text. maxRunes is -1 for no bound.
	minRunes, maxRunes int
	instructions       int
}

// String returns the text of the expression.
func (r *Regexp) String() string { return r.text }

// Instructions returns the number of RE2 instructions: matching tries at most so many for each byte of a text.
func (r *Regexp) Instructions() int { return r.instructions }

// MatchString reports whether a part of the text matches the expression.
func (r *Regexp) MatchString(text string) bool {
	if r.minRunes > 0 || r.maxRunes >= 0 {
		if n := utf8.RuneCountInString(text); n < r.minRunes || r.maxRunes >= 0 && n > r.maxRunes {
			return false
		}
	}
	for _, re := range r.all {
		if !re.MatchString(text) {
			return false
		}
	}
	for _, re := range r.not {
		if re.MatchString(text) {
			return false
		}
	}
	return true
}

// Check returns a *SyntaxError if a text is no regular expression of ECMA-262. It takes linear time and little memory,
// and does not report expressions that Compile does not support.
func Check(text string) error {
	p := &parser{text: text, checkOnly: true}
	if p.parse(); p.err != nil {
		return p.err
	}
	return nil
}

// Compile returns the compiled expression. It returns a *SyntaxError for a text that is no expression of ECMA-262,
// and an *UnsupportedError for an expression that it cannot translate, or that exceeds a bound.
func Compile(text string) (*Regexp, error) {
	p := &parser{text: text, checkOnly: len(text) > MaxBytes}
	alternatives := p.parse()
	switch {
	case p.err != nil:
		return nil, p.err
	case p.unsupported != "":
		return nil, &UnsupportedError{p.unsupported}
	case len(text) > MaxBytes:
		return nil, &UnsupportedError{fmt.Sprintf("has more than %d bytes", MaxBytes)}
	}
	return translate(text, alternatives)
}

// translate compiles a parsed expression. Lookaheads at its beginning become expressions of their own, because
// "^(?=a)b" matches if and only if "^a" and "^b" match.
func translate(text string, alternatives [][]piece) (*Regexp, error) {
	r := &Regexp{text: text, maxRunes: -1}
	if pieces := alternatives[0]; len(alternatives) == 1 && len(pieces) > 0 && pieces[0].kind == start {
		pieces = pieces[1:]
		for len(pieces) > 0 && pieces[0].kind == lookahead {
			if err := r.add("^"+pieces[0].text, pieces[0].negative); err != nil {
				return nil, err
			}
			pieces = pieces[1:]
		}
		if len(pieces) == 2 && pieces[0].kind == character && pieces[0].counted && pieces[1].kind == end {
			// RE2 would need an instruction for each repetition. Counting the characters needs none.
			r.minRunes, r.maxRunes = pieces[0].minimum, pieces[0].maximum
			pieces = []piece{{text: pieces[0].atom + "*"}, pieces[1]}
		}
		alternatives = [][]piece{append([]piece{{text: "^"}}, pieces...)}
	}
	translated, reason := join(alternatives)
	if reason != "" {
		return nil, &UnsupportedError{reason}
	}
	if err := r.add(translated, false); err != nil {
		return nil, err
	}
	return r, nil
}

// add compiles an expression in the syntax of RE2. A text that matches r has to match the expression too, or must not
// match it if negative is true.
func (r *Regexp) add(translated string, negative bool) error {
	parsed, err := syntax.Parse(translated, syntax.Perl)
	if err != nil {
		return &UnsupportedError{"repeats a part of it more than 1,000 times by nested repetitions"}
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return &UnsupportedError{"is too large"}
	}
	if r.instructions += len(program.Inst); r.instructions > MaxInstructions {
		return &UnsupportedError{fmt.Sprintf("needs more than %d steps for each character", MaxInstructions)}
	}
	compiled, err := regexp.Compile(translated)
	if err != nil {
		return &UnsupportedError{"is too large"}
	}
	if negative {
		r.not = append(r.not, compiled)
	} else {
		r.all = append(r.all, compiled)
	}
	return nil
}
