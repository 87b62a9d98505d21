package regex

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parser reads an expression of ECMA-262 and translates it piece by piece to the syntax of RE2.
type parser struct {
	text  string
	at    int // the offset of the next character
	depth int // the number of groups that are open
	// checkOnly is true if only mistakes in the syntax are wanted. Pieces are then neither translated nor kept, because a
	// long text would need a hundred times its size.
	checkOnly bool
	// foldsCase is true within a group with the flag i.
	foldsCase bool
	// err is the first mistake in the syntax.
	err *SyntaxError
	// unsupported is the reason of an UnsupportedError, "" for an expression that can be translated.
	unsupported string
}

// pieceKind is the kind of a piece. translate treats all kinds except other specially.
type pieceKind int

// The kinds of pieces.
const (
	other     pieceKind = iota
	character           // one character, or one of a class
	start               // ^
	end                 // $
	lookahead           // (?=…) or (?!…); the field text is a group without the ?= or ?!
)

// piece is a term of an alternative: an assertion, or an atom with its quantifier.
type piece struct {
	kind pieceKind
	// text is the piece in the syntax of RE2, and atom is the same without its quantifier.
	text, atom string
	// negative is true for (?!…).
	negative bool
	// counted is true for a quantifier in braces. maximum is -1 if it has none.
	counted          bool
	minimum, maximum int
}

const (
	// maxDepth is the maximum number of groups within each other. RE2 has the same bound.
	maxDepth = 1_000
	// maxRepeat is the maximum number in a quantifier of RE2.
	maxRepeat = 1_000
)

// parse reads the whole expression. It sets err or unsupported for an expression that has no translation.
func (p *parser) parse() [][]piece {
	if !utf8.ValidString(p.text) {
		p.refuse("has bytes that are no UTF-8")
		return [][]piece{nil}
	}
	alternatives := p.disjunction()
	if p.err == nil && p.at < len(p.text) && p.depth <= maxDepth {
		p.fail(p.at, "unmatched )")
	}
	return alternatives
}

// fail records a mistake in the syntax at an offset. Only the first one is kept.
func (p *parser) fail(offset int, reason string) {
	if p.err == nil {
		p.err = &SyntaxError{Reason: reason, Character: utf8.RuneCountInString(p.text[:offset]) + 1}
	}
}

// refuse records why the expression is not supported. Only the first reason is kept.
func (p *parser) refuse(reason string) {
	if p.unsupported == "" {
		p.unsupported = reason
	}
}

// has reports whether the rest of the text begins with prefix, and skips prefix if it does.
func (p *parser) has(prefix string) bool {
	if !strings.HasPrefix(p.text[p.at:], prefix) {
		return false
	}
	p.at += len(prefix)
	return true
}

// next returns the next character, and skips it. It must not be called at the end.
func (p *parser) next() rune {
	r, size := utf8.DecodeRuneInString(p.text[p.at:])
	p.at += size
	return r
}

// isDone reports whether nothing is left to read.
func (p *parser) isDone() bool { return p.err != nil || p.depth > maxDepth || p.at >= len(p.text) }

// disjunction reads alternatives up to the parenthesis that ends their group, or to the end.
func (p *parser) disjunction() [][]piece {
	if p.checkOnly {
		for !p.isDone() && p.text[p.at] != ')' {
			if !p.has("|") {
				p.term()
			}
		}
		return nil
	}
	alternatives := [][]piece{nil}
	for !p.isDone() && p.text[p.at] != ')' {
		if p.has("|") {
			alternatives = append(alternatives, nil)
			continue
		}
		last := len(alternatives) - 1
		alternatives[last] = append(alternatives[last], p.term())
	}
	return alternatives
}

// term reads an assertion, or an atom with its quantifier.
func (p *parser) term() piece {
	begin := p.at
	var t piece
	switch {
	case p.has("^"):
		t = piece{kind: start, text: "^"}
	case p.has("$"):
		t = piece{kind: end, text: "$"}
	case p.has(`\b`):
		t = piece{text: `\b`}
	case p.has(`\B`):
		t = piece{text: `\B`}
	default:
		t = p.atom()
	}
	t.atom = t.text
	if p.isDone() {
		return t
	}
	at := p.at
	quantifier, minimum, maximum := p.quantifier()
	switch {
	case quantifier == "":
	case t.kind == lookahead:
		p.refuse("repeats a lookahead")
	case begin == at || t.kind == start || t.kind == end || t.text == `\b` || t.text == `\B`:
		p.fail(at, "nothing to repeat")
	default:
		t.text += quantifier
		t.counted, t.minimum, t.maximum = quantifier[0] == '{', minimum, maximum
	}
	return t
}

// quantifier reads a quantifier, and returns it without the mark of lazy quantifiers: whether a text matches does not
// depend on the mark. It returns "" if there is no quantifier here. A brace that begins no quantifier is an ordinary
// character. minimum and maximum have a meaning only for a quantifier in braces. maximum is -1 if there is none.
func (p *parser) quantifier() (text string, minimum, maximum int) {
	begin := p.at
	switch {
	case p.has("*"), p.has("+"), p.has("?"):
		text = p.text[begin:p.at]
		minimum, maximum = 0, -1
	default:
		rest, found := strings.CutPrefix(p.text[p.at:], "{")
		if !found {
			return "", 0, 0
		}
		inner := rest[:prefixLength(rest, digits+",")]
		low, high, ranged := strings.Cut(inner, ",")
		if !strings.HasPrefix(rest[len(inner):], "}") || !isNumber(low) || high != "" && !isNumber(high) {
			return "", 0, 0
		}
		minimum, maximum = number(low), number(low)
		if ranged {
			if maximum = -1; high != "" {
				maximum = number(high)
			}
		}
		if maximum >= 0 && minimum > maximum {
			p.fail(begin, "numbers out of order in a quantifier")
			return "", 0, 0
		}
		p.at += len("{}") + len(inner)
		text = "{" + trimZeros(low) + "}"
		if ranged {
			text = "{" + trimZeros(low) + "," + trimZeros(high) + "}"
		}
	}
	p.has("?")
	return text, minimum, maximum
}

const digits = "0123456789"

func isNumber(text string) bool { return text != "" && strings.Trim(text, digits) == "" }

// trimZeros returns a number without leading zeros, because RE2 takes {08} for a text. It returns "" for "".
func trimZeros(number string) string {
	if trimmed := strings.TrimLeft(number, "0"); trimmed != "" || number == "" {
		return trimmed
	}
	return "0"
}

// prefixLength returns the length of the longest prefix of a text that has only these characters.
func prefixLength(text, characters string) int {
	return len(text) - len(strings.TrimLeft(text, characters))
}

// number returns the value of a number. For a number that int32 cannot have, it returns the maximum of int32: no text
// is so long.
func number(text string) int {
	if n, err := strconv.ParseInt(text, 10, 32); err == nil {
		return int(n)
	}
	return 1<<31 - 1
}

// atom reads a character, a class, an escape or a group.
func (p *parser) atom() piece {
	begin := p.at
	switch r := p.next(); r {
	case '.':
		return piece{kind: character, text: `[^\n\r\x{2028}\x{2029}]`}
	case '(':
		return p.group(begin)
	case '[':
		return piece{kind: character, text: p.class(begin)}
	case '\\':
		return p.escape(begin)
	case '*', '+', '?':
		p.fail(begin, "nothing to repeat")
		return piece{}
	case '{':
		p.at = begin
		if text, _, _ := p.quantifier(); text != "" {
			p.fail(begin, "nothing to repeat")
		}
		p.at = begin + 1
		fallthrough
	default:
		if p.checkOnly {
			return piece{kind: character}
		}
		return piece{kind: character, text: literal(r)}
	}
}

// literal returns a character as RE2 spells it, also within a class.
func literal(r rune) string {
	if isASCIILetter(r) || r >= '0' && r <= '9' {
		return string(r)
	}
	return fmt.Sprintf(`\x{%X}`, r)
}

// group reads a group after its opening parenthesis, which is at begin.
func (p *parser) group(begin int) piece {
	opening, kind, negative := "(?:", other, false
	outer := p.foldsCase
	switch {
	case p.has("?:"):
	case p.has("?="):
		kind = lookahead
	case p.has("?!"):
		kind, negative = lookahead, true
	case p.has("?<="), p.has("?<!"):
		p.refuse("has a lookbehind")
	case p.has("?<"):
		p.groupName(begin)
	case p.has("?"):
		opening = p.modifiers(begin)
	}
	if p.depth++; p.depth > maxDepth {
		p.refuse(fmt.Sprintf("has more than %d groups within each other", maxDepth))
		return piece{}
	}
	alternatives := p.disjunction()
	p.foldsCase = outer
	if p.depth > maxDepth {
		return piece{}
	}
	p.depth--
	if p.err == nil && !p.has(")") {
		p.fail(begin, "unterminated group")
	}
	if p.checkOnly {
		return piece{kind: kind}
	}
	text, reason := join(alternatives)
	if reason != "" {
		p.refuse(reason)
	}
	return piece{kind: kind, text: opening + text + ")", negative: negative}
}

// groupName reads the name of a group.
func (p *parser) groupName(begin int) {
	name, _, closed := strings.Cut(p.text[p.at:], ">")
	if !closed || name == "" || strings.ContainsAny(name, `()[]{}|*+?.^ `) || name[0] >= '0' && name[0] <= '9' {
		p.fail(begin, "invalid group name")
		return
	}
	p.at += len(name) + len(">")
}

// modifiers reads the flags of a group such as (?i:…), and returns the beginning of the group for RE2.
func (p *parser) modifiers(begin int) string {
	flags, _, closed := strings.Cut(p.text[p.at:], ":")
	if !closed || flags == "-" || strings.Count(flags, "-") > 1 || strings.Trim(flags, "ims-") != "" || flags == "" {
		p.fail(begin, "invalid group")
		return ""
	}
	p.at += len(flags) + len(":")
	if strings.ContainsAny(flags, "ms") {
		p.refuse("has a group with the flag m or s")
	}
	on, off, _ := strings.Cut(flags, "-")
	p.foldsCase = (p.foldsCase || strings.Contains(on, "i")) && !strings.Contains(off, "i")
	return "(?" + strings.TrimSuffix(flags, "-") + ":"
}

// join returns alternatives in the syntax of RE2, or the reason why RE2 does not support one of them.
func join(alternatives [][]piece) (text, reason string) {
	var b strings.Builder
	for i, pieces := range alternatives {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, part := range pieces {
			switch {
			case part.kind == lookahead:
				return "", "has a lookahead that is not at its beginning"
			case part.minimum > maxRepeat || part.maximum > maxRepeat:
				return "", "repeats a part of it more than 1,000 times"
			}
			b.WriteString(part.text)
		}
	}
	return b.String(), ""
}
