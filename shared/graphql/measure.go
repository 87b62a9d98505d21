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

// measured is a body and its plain form, which is as valid and has the same values in the same order, but says
// less: long texts in values are cut out of it, and what is left of them has an x for each byte beyond ASCII. A decoder that
// looks at each character of a megabyte takes as long as all else that is done about it.
type measured struct {
	body, plain []byte
	cuts        []cut
}

// cut is a place in the plain form, within a string, with how many bytes were cut out there and before.
type cut struct{ at, gone int }

// inBody is where a value begins or ends in the body which does so in the plain form.
func (m *measured) inBody(at int) int {
	if i := sort.Search(len(m.cuts), func(i int) bool { return m.cuts[i].at >= at }); i > 0 {
		at += m.cuts[i-1].gone
	}
	return at
}

// measure refuses a JSON text that costs more to read than it can be worth, one with a name twice in an
// object, and control characters in strings. Of a text that is no JSON otherwise it may say anything, and of UTF-8 it says nothing.
func measure(text []byte) (measured, *Error) {
	m := measurer{text: text}
	for ; m.at < len(text); m.at++ {
		if refused := m.next(); refused != nil {
			return measured{}, refused
		}
	}
	if m.twice() {
		return measured{}, errNoJSON
	}
	if m.copied == 0 {
		return measured{body: text, plain: text}, nil
	}
	return measured{body: text, plain: append(m.plain, text[m.copied:]...), cuts: m.cuts}, nil
}

type measurer struct {
	text []byte
	at   int
	// depth is how many brackets are open, and inside has the number of each: of which object a name is.
	depth    int
	inside   [MaxNesting + 1]int32
	brackets int32

	names                      []memberName
	nameBytes, values, escapes int

	plain  []byte
	copied int // of the text, up to where it is in plain
	cuts   []cut
}

// memberName is a name of an object, by the number of its bracket.
type memberName struct {
	object int32
	name   []byte
}

func (m *measurer) next() *Error {
	switch m.text[m.at] {
	case '"':
		return m.quoted()
	case '{', '[':
		if m.depth++; m.depth > MaxNesting {
			return refuse(CodeInput, Location{}, "The body is nested deeper than %d levels. Send flatter variables.", MaxNesting)
		}
		m.brackets++
		m.inside[m.depth] = m.brackets
	case '}', ']':
		if m.depth--; m.depth < 0 {
			return errNoJSON
		}
	case ',':
		if m.values++; m.values >= MaxValues {
			return m.many()
		}
	}
	return nil
}

func (m *measurer) many() *Error {
	return refuse(CodeInput, Location{}, "The body has more than %d names, %d bytes in names or %d values. Send less at once.", MaxNames, MaxNameBytes, MaxValues)
}

// quoted goes to the end of a string.
func (m *measurer) quoted() *Error {
	begin, before := m.at+1, m.escapes
	wide, refused := m.toEnd(begin)
	if refused != nil {
		return refused
	}
	end, escaped := m.at, m.escapes > before
	if !isName(m.text, end+1) {
		m.hide(begin, end, wide, escaped)
		return nil
	}
	name := m.text[begin:end]
	if m.nameBytes += len(name) + 1; m.nameBytes > MaxNameBytes || len(m.names) == MaxNames {
		return m.many()
	}
	if escaped {
		var err error
		if name, err = jsontext.AppendUnquote(nil, m.text[begin-1:end+1]); err != nil {
			return errNoJSON
		}
	}
	if len(m.names) == cap(m.names) {
		m.names = slices.Grow(m.names, 7*len(m.names)+8)
	}
	m.names = append(m.names, memberName{m.inside[m.depth], name})
	return nil
}

// Eight bytes at once: ones has each of them 1, and high the highest bit of each.
const (
	ones = 0x0101010101010101
	high = 0x80 * ones
)

// toEnd goes to the quotation mark that ends a string, which begins at i, and answers whether a byte beyond ASCII is before it.
func (m *measurer) toEnd(i int) (wide bool, refused *Error) {
	text := m.text
	for i < len(text) {
		if i+8 <= len(text) {
			eight := binary.LittleEndian.Uint64(text[i:])
			quotes, escapes := eight^'"'*ones, eight^'\\'*ones
			// The lowest bit of these is right: that of a quotation mark, a backslash or a control character.
			found := ((quotes-ones)&^quotes | (escapes-ones)&^escapes | (eight-' '*ones)&^eight) & high
			wide = wide || eight&high&(found&-found-1) != 0
			if found == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(found) / 8
		}
		switch c := text[i]; {
		case c == '"':
			m.at = i
			return wide, nil
		case c == '\\':
			if m.escapes++; m.escapes > MaxEscapes {
				return wide, refuse(CodeInput, Location{}, "The body has more than %d escapes in its strings. Write characters as they are, and send less at once.", MaxEscapes)
			}
			i++ // what is escaped may be the quotation mark
		case c < ' ':
			return wide, errNoJSON
		case c >= utf8.RuneSelf:
			wide = true
		}
		i++
	}
	return wide, errNoJSON
}

const (
	// leastCut is how many bytes are worth to be cut out of a text.
	leastCut = 64
	// behindEscape is how many bytes are kept behind an escape, which goes on for four at most.
	behindEscape = 8
)

// hide leaves of a string's text, which stands from begin up to end, what decides whether it is valid.
func (m *measurer) hide(begin, end int, wide, escaped bool) {
	if !wide && end-begin < leastCut {
		return
	}
	for i := begin; i < end; {
		next, kept := end, 0
		if escaped {
			if escape := bytes.IndexByte(m.text[i:end], '\\'); escape >= 0 {
				next = i + escape
			}
		}
		if i > begin {
			kept = behindEscape
		}
		if next-i-kept >= leastCut {
			m.keep(i, i+kept, wide)
			m.copied = next
			m.cuts = append(m.cuts, cut{len(m.plain), m.copied - len(m.plain)})
		} else if wide {
			m.keep(i, next, true)
		}
		i = next + 2 // behind what is escaped, which is no quotation mark
	}
}

// keep copies the text up to end, with an x for each byte beyond ASCII from begin on, where there are any.
func (m *measurer) keep(begin, end int, wide bool) {
	if m.plain == nil {
		m.plain = make([]byte, 0, min(len(m.text), MaxNameBytes))
	}
	m.plain = append(m.plain, m.text[m.copied:end]...)
	m.copied = end
	if !wide {
		return
	}
	kept := m.plain[len(m.plain)-(end-begin):]
	for ; len(kept) >= 8; kept = kept[8:] {
		eight := binary.LittleEndian.Uint64(kept)
		beyond := eight & high >> 7 * 0xff // all bits of these bytes
		binary.LittleEndian.PutUint64(kept, eight&^beyond|'x'*ones&beyond)
	}
	for k, c := range kept {
		if c >= utf8.RuneSelf {
			kept[k] = 'x'
		}
	}
}

// twice is whether a name comes twice in one object.
func (m *measurer) twice() bool {
	if len(m.names) < 2 {
		return false
	}
	seed := maphash.MakeSeed()
	// At least half of the places are free, and a taken one has the index of a name and 1.
	places := make([]int32, 1<<bits.Len(uint(2*len(m.names))))
	for i := range m.names {
		n := &m.names[i]
		at := int(maphash.Bytes(seed, n.name)+uint64(n.object)*0x9e3779b97f4a7c15) & (len(places) - 1) //nolint:gosec // G115: its lowest bits
		for places[at] > 0 {
			if other := &m.names[places[at]-1]; other.object == n.object && bytes.Equal(other.name, n.name) {
				return true
			}
			at = (at + 1) & (len(places) - 1)
		}
		places[at] = int32(i + 1)
	}
	return false
}

// isName is whether a string is one of an object's names, by what follows it.
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
