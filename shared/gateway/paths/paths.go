// Package paths has the one spelling of a request's path. Router, policies, the
// ${…} of addresses and upstreams all see what Canonical makes of it (design,
// section 7): upstreams normalise paths in many ways, and a gateway that does not
// is walked round.
//
// It knows strings alone: no route, no request. Read this file first, then
// readings.go (what an upstream may make of a canonical path) and template.go
// (the same spelling for the paths that a project writes). Sources: RFC 3986,
// sections 2.3, 3.3 and 6.2.2; RFC 3629, section 3.
package paths

import (
	"errors"
	"strings"
)

// What Canonical and its kin refuse a path for. Each text says what to do.
var (
	ErrForm    = errors.New(`begin the path with "/"`)
	ErrEscape  = errors.New(`write "%" as "%25" in the path, or complete the escape`)
	ErrControl = errors.New("take control characters, such as %00, out of the path")
	// ErrOverlong is for escapes that stand for ASCII in two bytes or more, which
	// old decoders take for it: %C0%AE was a dot.
	ErrOverlong = errors.New("write ASCII in the path as it is: an overlong UTF-8 sequence is none")
	ErrHidden   = errors.New(`resolve the "." and ".." of the path before it is sent: beside an encoded slash, a backslash or a ";" nobody can tell what they mean`)
	ErrDots     = errors.New(`take the "." and ".." segments out of the path`)
)

// What a byte of a path is, as bits.
const (
	unreserved = 1 << iota // its escape is decoded
	plain                  // it may stand in a path as it is (RFC 3986, pchar)
	simple                 // it is plain and has no meaning for Canonical
	control
)

var classes = makeClasses()

func makeClasses() (table [256]uint8) {
	for c := range table {
		switch c := byte(c); {
		case c < ' ' || c == 0x7f:
			table[c] = control
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-._~", c) >= 0:
			table[c] = unreserved | plain | simple
		case strings.IndexByte("!$&'()*+,=:@", c) >= 0:
			table[c] = plain | simple
		case c == ';':
			table[c] = plain
		}
	}
	return table
}

func is(c byte, class uint8) bool { return classes[c]&class != 0 }

// Canonical returns the canonical spelling of an escaped path: escapes of
// unreserved characters are decoded, others are in upper case, bytes that can't
// stand in a path are escaped, "//" is merged, then dot segments are resolved. It
// decodes once: %252e stays. An encoded slash stays encoded and is part of its
// segment.
//
// It refuses what upstreams read in different ways: "." and ".." that show only
// once encoded slashes and backslashes are decoded or path parameters ("..;a")
// are cut off, a ".." that takes back what others count as more or fewer segments,
// control characters, overlong UTF-8, and a "%" that begins no escape.
//
// Canonical of a canonical path is that path, and needs no memory.
func Canonical(raw string) (string, error) {
	if isSimple(raw) {
		return raw, nil
	}
	path, err := spell(raw)
	if err != nil {
		return "", err
	}
	return settle(path)
}

// Within is Canonical for a path that has to go where it is written: it refuses
// dot segments, with ErrDots, where Canonical resolves them.
func Within(raw string) (string, error) {
	if isSimple(raw) {
		return raw, nil
	}
	path, err := spell(raw)
	if err != nil {
		return "", err
	}
	for segment := range strings.SplitSeq(path, "/") {
		if isDots(segment) {
			return "", ErrDots
		}
	}
	return settle(path)
}

// Written returns a path as it was written, with only those bytes escaped that
// can't stand in a URL.
func Written(raw string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	from := 0
	for i := range len(raw) {
		c := raw[i]
		if c == '%' {
			if _, ok := escapeAt(raw, i); ok {
				continue
			}
		} else if c == '/' || c == '[' || c == ']' || is(c, plain) {
			continue
		}
		b.WriteString(raw[from:i])
		b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		from = i + 1
	}
	if from == 0 {
		return raw
	}
	b.WriteString(raw[from:])
	return b.String()
}

// isSimple reports whether nothing in a path needs a closer look: one scan, which
// most requests need no more than.
func isSimple(path string) bool {
	if path == "" || path[0] != '/' {
		return false
	}
	for i := 1; i < len(path); i++ {
		switch c := path[i]; {
		case c == '/' || c == '.':
			if path[i-1] == '/' {
				return false
			}
		case !is(c, simple):
			return false
		}
	}
	return true
}

// spell does all that is done byte by byte, and returns path itself where that
// is nothing.
func spell(path string) (string, error) {
	if path == "" || path[0] != '/' {
		return "", ErrForm
	}
	text, err := spellText(path)
	if err == nil && isOverlong(text) {
		err = ErrOverlong
	}
	return text, err
}

// spellText is spell for a part of a path.
func spellText(text string) (string, error) {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	from := 0 // what is before is in b
	for i := 0; i < len(text); i++ {
		c, width := text[i], 1
		if c == '%' {
			decoded, ok := escapeAt(text, i)
			if !ok {
				return "", ErrEscape
			}
			c, width = decoded, 3
		}
		switch {
		case is(c, control):
			return "", ErrControl
		case width == 1 && (c == '/' || is(c, plain)):
			continue
		case width == 3 && !is(c, unreserved) && text[i+1] == hex[c>>4] && text[i+2] == hex[c&15]:
			i += 2
			continue
		}
		b.WriteString(text[from:i])
		if is(c, unreserved) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
		i += width - 1
		from = i + 1
	}
	if from == 0 {
		return text, nil
	}
	b.WriteString(text[from:])
	return b.String(), nil
}

// escapeAt returns the byte that the escape at text[i:] stands for.
func escapeAt(text string, i int) (byte, bool) {
	if i+2 >= len(text) {
		return 0, false
	}
	high, ok := digit(text[i+1])
	low, also := digit(text[i+2])
	return high<<4 | low, ok && also
}

func digit(c byte) (byte, bool) {
	switch {
	case c >= '0' && c <= '9':
		return c - '0', true
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10, true
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// isOverlong looks for UTF-8 of ASCII in more than one byte. Other bytes that are
// no UTF-8 pass: there are upstreams with names in Latin-1.
func isOverlong(spelled string) bool {
	for i := 0; i+5 < len(spelled); i++ {
		if spelled[i] != '%' || spelled[i+3] != '%' {
			continue
		}
		lead, next := spelled[i+1:i+3], spelled[i+4]
		switch lead {
		case "C0", "C1":
			if next >= '8' && next <= '9' || next == 'A' || next == 'B' {
				return true
			}
		case "E0":
			if next == '8' || next == '9' {
				return true
			}
		case "F0", "F8", "FC", "FE", "FF": // of four to seven bytes, as UTF-8 was before RFC 3629
			if next == '8' {
				return true
			}
		}
	}
	return false
}

// settle merges slashes and resolves dot segments of a path that is spelled
// right, and refuses dots that hide.
func settle(path string) (string, error) {
	settled := true
	rest := path[1:]
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if hidesDots(segment) {
			return "", ErrHidden
		}
		if isDots(segment) || segment == "" && more {
			settled = false
		}
	}
	if settled {
		return path, nil
	}
	var kept []string
	rest = path[1:]
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		switch {
		case segment == "..":
			if n := len(kept); n > 0 {
				if isUncertain(kept[n-1]) {
					return "", ErrHidden
				}
				kept = kept[:n-1]
			}
		case segment != "" && segment != ".":
			kept = append(kept, segment)
			continue
		}
		if !more {
			kept = append(kept, "") // what ends in dots is a folder
		}
	}
	return "/" + strings.Join(kept, "/"), nil
}

func isDots(segment string) bool { return segment == "." || segment == ".." }

// The encoded slashes, as spell leaves them.
const (
	slash     = "%2F"
	backslash = "%5C"
	semicolon = "%3B"
)

// isUncertain reports whether upstreams differ in what a ".." takes back after a
// segment: a part of it where slashes are decoded, the one before where nothing is
// left of it without its path parameters.
func isUncertain(segment string) bool {
	return strings.Contains(segment, slash) || strings.Contains(segment, backslash) ||
		strings.HasPrefix(segment, ";") || strings.HasPrefix(segment, semicolon)
}

// hidesDots reports whether a segment has a "." or ".." once it is split at encoded
// slashes, or once path parameters are cut off (RFC 3986, section 3.3: "..;a" is
// ".." for servlet containers).
func hidesDots(segment string) bool {
	for at := 0; at <= len(segment); {
		end, width := nextSlash(segment, at)
		piece := segment[at:end]
		name := piece
		if i := strings.IndexByte(name, ';'); i >= 0 {
			name = name[:i]
		}
		if i := strings.Index(name, semicolon); i >= 0 {
			name = name[:i]
		}
		if isDots(name) && len(name) < len(segment) {
			return true
		}
		at = end + width
	}
	return false
}

// nextSlash returns where the next encoded slash is and how long it is: past the
// end if there is none.
func nextSlash(segment string, at int) (end, width int) {
	for i := at; i+2 < len(segment); i++ {
		if segment[i] == '%' && (segment[i:i+3] == slash || segment[i:i+3] == backslash) {
			return i, 3
		}
	}
	return len(segment), 1
}
