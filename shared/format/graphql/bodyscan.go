package graphql

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
	"sort"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// plainBody is a body and its plain form, which a decoder reads instead of the body. The plain form is valid JSON
// exactly if the body is. The only exception is invalid UTF-8 in values, which the plain form does not preserve. The
// plain form has a value for each value of the body, in the same order. Parts of long strings are removed. In values,
// each remaining non-ASCII byte is replaced with an x. The plain form saves time: a decoder that inspects each
// character of a megabyte would take as long as the rest of the processing.
type plainBody struct {
	body, plain []byte
	cuts        []cut
}

// cut is an offset in the plain form at which bytes of a string were removed.
// removed is the number of bytes that were removed at this offset and before it.
type cut struct{ at, removed int }

// bodyOffset converts the offset at which a value begins or ends in the plain form to the offset in the body.
func (p *plainBody) bodyOffset(at int) int {
	if i := sort.Search(len(p.cuts), func(i int) bool { return p.cuts[i].at >= at }); i > 0 {
		at += p.cuts[i-1].removed
	}
	return at
}

// scanBody returns the plain form of a JSON text. It refuses a text that is too expensive to read, or that has
// duplicate names in an object or control characters in strings. It detects only some of the other syntax errors: a
// decoder has to read the plain form to detect the rest. It does not check UTF-8, and the decoder cannot check the
// UTF-8 of values in the plain form.
func scanBody(text []byte) (plainBody, *Error) {
	s := bodyScanner{text: text}
	for ; s.at < len(text); s.at++ {
		if refused := s.next(); refused != nil {
			return plainBody{}, refused
		}
	}
	if s.hasDuplicate() {
		return plainBody{}, errInvalidJSON
	}
	if s.copied == 0 {
		return plainBody{body: text, plain: text}, nil
	}
	return plainBody{body: text, plain: append(s.plain, text[s.copied:]...), cuts: s.cuts}, nil
}

// bodyScanner reads a body for scanBody.
type bodyScanner struct {
	text []byte
	at   int
	// depth is the number of open brackets. brackets is the number of brackets that were opened so far. openBrackets[d]
	// identifies the bracket that is open at depth d: it is the value of brackets right after that bracket was opened.
	// memberName.object has this value.
	depth        int
	openBrackets [MaxNesting + 1]int32
	brackets     int32

	names []memberName
	// values is the number of commas. Each comma has a value after it.
	nameBytes, values, escapes int

	plain  []byte
	copied int // the offset up to which text is copied to plain or left out
	cuts   []cut
}

// memberName is a name in an object. object identifies the object's bracket, as openBrackets does.
type memberName struct {
	object int32
	name   []byte
}

// next processes the byte at s.at. If a string begins there, next processes the string and advances to its last byte.
func (s *bodyScanner) next() *Error {
	switch s.text[s.at] {
	case '"':
		return s.readString()
	case '{', '[':
		if s.depth++; s.depth > MaxNesting {
			return refuse(CodeInput, Location{}, "The body is nested deeper than %d levels. Send flatter variables.", MaxNesting)
		}
		s.brackets++
		s.openBrackets[s.depth] = s.brackets
	case '}', ']':
		if s.depth--; s.depth < 0 {
			return errInvalidJSON
		}
	case ',':
		if s.values++; s.values >= MaxValues {
			return s.tooMany()
		}
	}
	return nil
}

func (s *bodyScanner) tooMany() *Error {
	return refuse(CodeInput, Location{},
		"The body has more than %d names, %d bytes in names or %d values. Send less at once.", MaxNames, MaxNameBytes,
		MaxValues)
}

// readString advances to the quotation mark that ends a string. It records the name of a member, and shortens any other
// string in the plain form.
func (s *bodyScanner) readString() *Error {
	begin, before := s.at+1, s.escapes
	nonASCII, refused := s.scanString(begin)
	if refused != nil {
		return refused
	}
	end, escaped := s.at, s.escapes > before
	if !isName(s.text, end+1) {
		s.elide(begin, end, nonASCII, escaped)
		return nil
	}
	name := s.text[begin:end]
	if s.nameBytes += len(name) + 1; s.nameBytes > MaxNameBytes || len(s.names) == MaxNames {
		return s.tooMany()
	}
	if escaped {
		var err error
		if name, err = jsontext.AppendUnquote(nil, s.text[begin-1:end+1]); err != nil {
			return errInvalidJSON
		}
	}
	if len(s.names) == cap(s.names) {
		s.names = slices.Grow(s.names, 7*len(s.names)+8)
	}
	s.names = append(s.names, memberName{s.openBrackets[s.depth], name})
	return nil
}

// Masks for eight bytes: lowBits has the value 1 in each byte, highBits the highest bit of each byte.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x80 * lowBits
)

// scanString advances from the beginning of a string's text, at i, to the quotation mark
// that ends the string. It also reports whether the string contains a non-ASCII byte.
func (s *bodyScanner) scanString(i int) (nonASCII bool, refused *Error) {
	text := s.text
	for i < len(text) {
		if i+8 <= len(text) {
			word := binary.LittleEndian.Uint64(text[i:])
			quotes, escapes := word^'"'*lowBits, word^'\\'*lowBits
			// Only the lowest set bit of found is reliable. It marks the first quotation mark, backslash or control character of
			// the word.
			found := ((quotes-lowBits)&^quotes | (escapes-lowBits)&^escapes | (word-' '*lowBits)&^word) & highBits
			nonASCII = nonASCII || word&highBits&(found&-found-1) != 0
			if found == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(found) / 8
		}
		switch c := text[i]; {
		case c == '"':
			s.at = i
			return nonASCII, nil
		case c == '\\':
			if s.escapes++; s.escapes > MaxEscapes {
				return nonASCII, refuse(CodeInput, Location{}, "The body has more than %d escapes in its strings. Write "+
					"characters as they are, and send less at once.", MaxEscapes)
			}
			i++ // the escaped character could be the quotation mark
		case c < ' ':
			return nonASCII, errInvalidJSON
		case c >= utf8.RuneSelf:
			nonASCII = true
		}
		i++
	}
	return nonASCII, errInvalidJSON
}

const (
	// minCut is the minimum number of bytes that elide removes from a string.
	minCut = 64
	// escapeMargin is the number of bytes that are kept after a backslash and the
	// character that follows it. An escape has at most four more bytes (\u0000).
	escapeMargin = 8
)

// elide shortens a string in the plain form. The string's text has the offsets from begin up to, but not including,
// end. elide leaves out parts that cannot make the string invalid. If nonASCII is true, it also replaces non-ASCII
// bytes. escaped reports whether the string has escapes.
func (s *bodyScanner) elide(begin, end int, nonASCII, escaped bool) {
	if !nonASCII && end-begin < minCut {
		return
	}
	for i := begin; i < end; {
		next, margin := end, 0
		if escaped {
			if escape := bytes.IndexByte(s.text[i:end], '\\'); escape >= 0 {
				next = i + escape
			}
		}
		if i > begin {
			margin = escapeMargin
		}
		if next-i-margin >= minCut {
			s.copyTo(i, i+margin, nonASCII)
			s.copied = next
			s.cuts = append(s.cuts, cut{len(s.plain), s.copied - len(s.plain)})
		} else if nonASCII {
			s.copyTo(i, next, true)
		}
		i = next + 2 // after the escaped character, which is not a quotation mark
	}
}

// copyTo copies the text up to end. If nonASCII is true, it replaces each non-ASCII byte from begin on with an x.
func (s *bodyScanner) copyTo(begin, end int, nonASCII bool) {
	if s.plain == nil {
		s.plain = make([]byte, 0, min(len(s.text), MaxNameBytes))
	}
	s.plain = append(s.plain, s.text[s.copied:end]...)
	s.copied = end
	if !nonASCII {
		return
	}
	tail := s.plain[len(s.plain)-(end-begin):]
	for ; len(tail) >= 8; tail = tail[8:] {
		word := binary.LittleEndian.Uint64(tail)
		mask := word & highBits >> 7 * 0xff // 0xff for each non-ASCII byte
		binary.LittleEndian.PutUint64(tail, word&^mask|'x'*lowBits&mask)
	}
	for k, c := range tail {
		if c >= utf8.RuneSelf {
			tail[k] = 'x'
		}
	}
}

// hasDuplicate reports whether an object has duplicate names.
func (s *bodyScanner) hasDuplicate() bool {
	if len(s.names) < 2 {
		return false
	}
	seed := maphash.MakeSeed()
	// At least half of the slots are free. A used slot has the index of a name plus 1.
	slots := make([]int32, 1<<bits.Len(uint(2*len(s.names))))
	for i := range s.names {
		n := &s.names[i]
		slot := int(maphash.Bytes(seed, n.name)+uint64(n.object)*0x9e3779b97f4a7c15) & (len(slots) - 1) //nolint:gosec // G115: only the lowest bits count
		for slots[slot] > 0 {
			if other := &s.names[slots[slot]-1]; other.object == n.object && bytes.Equal(other.name, n.name) {
				return true
			}
			slot = (slot + 1) & (len(slots) - 1)
		}
		slots[slot] = int32(i + 1)
	}
	return false
}

// isName reports whether the string before the offset i is the name of a member: the next character that is not white
// space is a colon.
func isName(text []byte, i int) bool {
	for ; i < len(text); i++ {
		switch text[i] {
		case ' ', '\t', '\r', '\n':
		default:
			return text[i] == ':'
		}
	}
	return false
}
