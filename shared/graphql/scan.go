package graphql

import (
	"strings"
	"unicode/utf8"
)

// scan refuses what parsers of documents read in two ways, and brackets that are nested deeper than
// MaxNesting. It knows where strings and comments end and nothing else; the parser does the
// rest. Why it is here: what one parser takes for a part of a string is a field to another,
// which is a way past every check. gqlparser ends a block string at the last of several
// quotes, where the specification (October 2021, 2.9.4) and GraphQL.js end it at the third.
func scan(text string) *Error {
	s := scanner{text: text}
	for s.at < len(text) {
		if err := s.next(); err != nil {
			return err
		}
	}
	return nil
}

type scanner struct {
	text  string
	at    int
	depth int
}

func (s *scanner) next() *Error {
	switch c := s.text[s.at]; c {
	case '"':
		return s.quoted()
	case '#':
		return s.comment()
	case '{', '[', '(':
		if s.depth++; s.depth > MaxNesting {
			return refuse(CodeValidation, s.location(s.at), "The document is nested deeper than %d levels here. Nest less.", MaxNesting)
		}
	case '}', ']', ')':
		s.depth--
	case 0xef:
		// A byte order mark within a document is white space to some and refused by others.
		if s.at > 0 && strings.HasPrefix(s.text[s.at:], "\ufeff") {
			return s.ambiguous(s.at, "a byte order mark behind its beginning")
		}
	}
	s.at++
	return nil
}

// comment goes to the end of its line, about which the older drafts of the specification have
// more to say than newer ones.
func (s *scanner) comment() *Error {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case '\n', '\r':
			return nil
		case '\v', '\f':
			return s.separated()
		case 0xc2, 0xe2: // how the others begin
			for _, separator := range [...]string{"\u0085", "\u2028", "\u2029"} {
				if strings.HasPrefix(s.text[s.at:], separator) {
					return s.separated()
				}
			}
		}
	}
	return nil
}

func (s *scanner) separated() *Error {
	return s.ambiguous(s.at, "a line separator that is not LF or CR in a comment")
}

func (s *scanner) quoted() *Error {
	start := s.at
	if strings.HasPrefix(s.text[s.at:], `"""`) {
		s.at += 3
		if err := s.block(start); err != nil {
			return err
		}
	} else {
		s.at++
		s.line()
	}
	if s.at < len(s.text) && s.text[s.at] == '"' {
		return s.ambiguous(s.at, "a quotation mark right behind a string")
	}
	return nil
}

// line goes behind the end of a string, or to where the parser will miss it.
func (s *scanner) line() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			s.at++
			return
		case '\n', '\r':
			return
		case '\\':
			s.at++
		}
		s.at++
	}
	s.at = len(s.text)
}

// block goes behind the end of a block string. A backslash is one by itself there, and \""" are
// three quotes.
func (s *scanner) block(start int) *Error {
	for s.at < len(s.text) {
		switch rest := s.text[s.at:]; {
		case strings.HasPrefix(rest, `\\"""`):
			return s.ambiguous(s.at, `a block string with \\"""`)
		case strings.HasPrefix(rest, `\"""`):
			s.at += 4
		case strings.HasPrefix(rest, `"""`):
			s.at += 3
			return nil
		default:
			s.at++
		}
	}
	return refuse(CodeParse, s.location(start), "The document has a block string that does not end. End it with three quotation marks.")
}

func (s *scanner) ambiguous(at int, what string) *Error {
	return refuse(CodeParse, s.location(at), "The document has %s, which servers read in different ways. Write it in another way.", what)
}

// location counts lines as the specification does: LF, CR, and both together for one.
func (s *scanner) location(at int) Location {
	before := s.text[:at]
	lines := strings.Count(before, "\n") + strings.Count(before, "\r") - strings.Count(before, "\r\n")
	line := before[strings.LastIndexAny(before, "\n\r")+1:]
	return Location{Line: lines + 1, Column: utf8.RuneCountInString(line) + 1}
}
