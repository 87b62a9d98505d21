package graphql

import (
	"strings"
	"unicode/utf8"
)

// scan refuses texts that parsers read differently, and brackets nested deeper than MaxNesting. It finds only the ends
// of strings and comments; the parser checks everything else. If this gateway reads a text as a part of a string and
// the upstream reads it as a field, the field bypasses every check. For example, gqlparser ends a block string at the
// last of several quotes, while the specification (October 2021, 2.9.4) and GraphQL.js end it at the third.
func scan(text string) *Error {
	s := scanner{text: text}
	for s.at < len(text) {
		if err := s.next(); err != nil {
			return err
		}
	}
	return nil
}

// scanner reads a document for scan and Amend.
type scanner struct {
	text  string
	at    int
	depth int
}

// next advances past the byte at s.at, or past the string or comment that begins there.
func (s *scanner) next() *Error {
	switch c := s.text[s.at]; c {
	case '"':
		return s.readString()
	case '#':
		return s.skipComment()
	case '{', '[', '(':
		if s.depth++; s.depth > MaxNesting {
			return refuse(CodeValidation, s.location(s.at), "The document is nested deeper than %d levels here. Nest less.",
				MaxNesting)
		}
	case '}', ']', ')':
		s.depth--
	case 0xef:
		// Some parsers treat a byte order mark within a document as white space, others refuse it.
		if s.at > 0 && strings.HasPrefix(s.text[s.at:], "\ufeff") {
			return s.ambiguous(s.at, "a byte order mark behind its beginning")
		}
	}
	s.at++
	return nil
}

// skipComment advances to the end of the comment's line. Older drafts
// of the specification have more line separators than newer ones.
func (s *scanner) skipComment() *Error {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case '\n', '\r':
			return nil
		case '\v', '\f':
			return s.badSeparator()
		case 0xc2, 0xe2: // the first bytes of the separators below
			for _, separator := range [...]string{"\u0085", "\u2028", "\u2029"} {
				if strings.HasPrefix(s.text[s.at:], separator) {
					return s.badSeparator()
				}
			}
		}
	}
	return nil
}

func (s *scanner) badSeparator() *Error {
	return s.ambiguous(s.at, "a line separator that is not LF or CR in a comment")
}

func (s *scanner) readString() *Error {
	start := s.at
	if strings.HasPrefix(s.text[s.at:], `"""`) {
		s.at += 3
		if err := s.readBlockString(start); err != nil {
			return err
		}
	} else {
		s.at++
		s.readLineString()
	}
	if s.at < len(s.text) && s.text[s.at] == '"' {
		return s.ambiguous(s.at, "a quotation mark right behind a string")
	}
	return nil
}

// readLineString advances past the end of a string, or to the
// place where the parser will report that the end is missing.
func (s *scanner) readLineString() {
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

// readBlockString advances past the end of a block string. A backslash is an ordinary
// character in a block string, except that \""" stands for three quotation marks.
func (s *scanner) readBlockString(start int) *Error {
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
	return refuse(CodeParse, s.location(start),
		"The document has a block string that does not end. End it with three quotation marks.")
}

func (s *scanner) ambiguous(at int, construct string) *Error {
	return refuse(CodeParse, s.location(at),
		"The document has %s, which servers read in different ways. Write it in another way.", construct)
}

// location returns the line and column of an offset. As in the specification, each of LF, CR and CR LF ends a line.
func (s *scanner) location(at int) Location {
	before := s.text[:at]
	lines := strings.Count(before, "\n") + strings.Count(before, "\r") - strings.Count(before, "\r\n")
	line := before[strings.LastIndexAny(before, "\n\r")+1:]
	return Location{Line: lines + 1, Column: utf8.RuneCountInString(line) + 1}
}
