// Package paths normalizes the path of a request. The router, policies and the expressions ${…} in addresses all get
// the result of Canonical (design, section 7). So do upstreams, unless the project preserves paths
// (project.PreservePaths). Upstreams normalize paths in many ways, so clients could bypass a gateway that does not
// normalize them.
//
// The package works only with strings. It does not know routes and requests. Read this file
// first, then interpretations.go (how upstreams can interpret a canonical path) and
// template.go (the canonical spelling of the path templates and patterns in a
// project). Sources: RFC 3986, sections 2.3, 3.3 and 6.2.2; RFC 3629, section 3.
package paths

import (
	"errors"
	"strings"
)

// The reasons why Canonical and similar functions refuse a path. Each text says what to do.
var (
	ErrRelative = errors.New(`begin the path with "/"`)
	ErrEscape   = errors.New(`write "%" as "%25" in the path, or complete the escape`)
	ErrControl  = errors.New("take control characters, such as %00, out of the path")
	// ErrOverlong is for escapes that encode ASCII in two bytes or more.
	// Old decoders accept such escapes: they decode %C0%AE as a dot.
	ErrOverlong      = errors.New("write ASCII in the path as it is: an overlong UTF-8 sequence is none")
	ErrAmbiguousDots = errors.New(
		`resolve the "." and ".." of the path before it is sent: beside an encoded slash, a backslash or a ";" nobody can ` +
			`tell what they mean`)
	ErrDotSegment = errors.New(`take the "." and ".." segments out of the path`)
)

// Classes of bytes in a path, as bits.
const (
	unreserved = 1 << iota // Canonical decodes its escape
	plain                  // can be in a path without an escape (RFC 3986, pchar)
	simple                 // plain, except the ";" of path parameters
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

func hasClass(c byte, class uint8) bool { return classes[c]&class != 0 }

// Canonical returns the canonical spelling of an escaped path. It decodes escapes of unreserved characters,
// writes other escapes in upper case, escapes bytes that cannot be in a path, merges "//", and then resolves
// dot segments. It decodes once: %252e stays. An encoded slash stays encoded and is part of its segment.
//
// It refuses paths that upstreams read differently. A "." or ".." must not appear only after decoding encoded slashes
// and backslashes, or after cutting off path parameters ("..;a"). A ".." must not follow a segment that some upstreams
// count as several segments or as none. Control characters, overlong UTF-8, a "%" that does not begin an escape, and a
// path that does not begin with "/" are refused too.
//
// Canonical returns a canonical path unchanged, without allocating memory.
func Canonical(raw string) (string, error) {
	if isSimple(raw) {
		return raw, nil
	}
	path, err := normalize(raw)
	if err != nil {
		return "", err
	}
	return resolve(path)
}

// CanonicalStrict is like Canonical, but refuses dot segments with ErrDotSegment
// instead of resolving them. Use it for paths that must not change their meaning.
func CanonicalStrict(raw string) (string, error) {
	if isSimple(raw) {
		return raw, nil
	}
	path, err := normalize(raw)
	if err != nil {
		return "", err
	}
	for segment := range strings.SplitSeq(path, "/") {
		if isDots(segment) {
			return "", ErrDotSegment
		}
	}
	return resolve(path)
}

// EscapeInvalid escapes the bytes that cannot be in a path, and each "%" that does not begin an escape. It leaves
// everything else unchanged, including square brackets.
func EscapeInvalid(raw string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	from := 0
	for i := range len(raw) {
		c := raw[i]
		if c == '%' {
			if _, ok := escapeAt(raw, i); ok {
				continue
			}
		} else if c == '/' || c == '[' || c == ']' || hasClass(c, plain) {
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

// isSimple reports whether a single scan shows that a path is canonical. For most requests, it returns true.
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
		case !hasClass(c, simple):
			return false
		}
	}
	return true
}

// normalize normalizes the bytes and escapes of a path, and refuses
// overlong UTF-8. It returns path itself if nothing changes.
func normalize(path string) (string, error) {
	if path == "" || path[0] != '/' {
		return "", ErrRelative
	}
	text, err := normalizeEscapes(path)
	if err == nil && isOverlong(text) {
		err = ErrOverlong
	}
	return text, err
}

// normalizeEscapes normalizes the bytes and escapes of a part of a path.
func normalizeEscapes(text string) (string, error) {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	from := 0 // b contains everything before from
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
		case hasClass(c, control):
			return "", ErrControl
		case width == 1 && (c == '/' || hasClass(c, plain)):
			continue
		case width == 3 && !hasClass(c, unreserved) && text[i+1] == hex[c>>4] && text[i+2] == hex[c&15]:
			i += 2
			continue
		}
		b.WriteString(text[from:i])
		if hasClass(c, unreserved) {
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

// escapeAt returns the byte that the escape at text[i:] encodes. It
// returns false if no two hexadecimal digits follow the percent sign.
func escapeAt(text string, i int) (byte, bool) {
	if i+2 >= len(text) {
		return 0, false
	}
	high, ok := hexValue(text[i+1])
	low, ok2 := hexValue(text[i+2])
	return high<<4 | low, ok && ok2
}

func hexValue(c byte) (byte, bool) {
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

// isOverlong reports whether a path contains ASCII that is encoded in more than one
// byte of UTF-8. It allows other invalid UTF-8: some upstreams have names in Latin-1.
func isOverlong(normalized string) bool {
	for i := 0; i+5 < len(normalized); i++ {
		if normalized[i] != '%' || normalized[i+3] != '%' {
			continue
		}
		lead, next := normalized[i+1:i+3], normalized[i+4]
		switch lead {
		case "C0", "C1":
			if next >= '8' && next <= '9' || next == 'A' || next == 'B' {
				return true
			}
		case "E0":
			if next == '8' || next == '9' {
				return true
			}
		// These begin sequences of four to seven bytes, which UTF-8 allowed before RFC 3629.
		case "F0", "F8", "FC", "FE", "FF":
			if next == '8' {
				return true
			}
		}
	}
	return false
}

// resolve merges slashes and resolves dot segments of a path that normalize has normalized. It returns ErrAmbiguousDots
// if the path has hidden dots (hasHiddenDots), or a ".." after an ambiguous segment (isAmbiguous).
func resolve(path string) (string, error) {
	resolved := true
	rest := path[1:]
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if hasHiddenDots(segment) {
			return "", ErrAmbiguousDots
		}
		if isDots(segment) || segment == "" && more {
			resolved = false
		}
	}
	if resolved {
		return path, nil
	}
	var segments []string
	rest = path[1:]
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		switch {
		case segment == "..":
			if n := len(segments); n > 0 {
				if isAmbiguous(segments[n-1]) {
					return "", ErrAmbiguousDots
				}
				segments = segments[:n-1]
			}
		case segment != "" && segment != ".":
			segments = append(segments, segment)
			continue
		}
		if !more {
			segments = append(segments, "") // a path that ends in a dot segment gets a slash at the end
		}
	}
	return "/" + strings.Join(segments, "/"), nil
}

func isDots(segment string) bool { return segment == "." || segment == ".." }

// The escapes of the slash, the backslash and the semicolon, as normalize writes them.
const (
	slash     = "%2F"
	backslash = "%5C"
	semicolon = "%3B"
)

// isAmbiguous reports whether upstreams differ in the effect of a ".." after a segment. In an upstream
// that decodes slashes, the ".." removes only a part of the segment. In an upstream that cuts off path
// parameters, nothing can remain of the segment, so that the ".." removes the previous segment.
func isAmbiguous(segment string) bool {
	return strings.Contains(segment, slash) || strings.Contains(segment, backslash) ||
		strings.HasPrefix(segment, ";") || strings.HasPrefix(segment, semicolon)
}

// hasHiddenDots reports whether a segment contains a "." or ".." after splitting it at encoded slashes, or
// after cutting off path parameters (RFC 3986, section 3.3: "..;a" is ".." for servlet containers).
func hasHiddenDots(segment string) bool {
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

// nextSlash searches segment[at:] for an encoded slash or backslash. It returns the offset in segment and the length of
// the first one. If there is none, the offset is the end of the segment.
func nextSlash(segment string, at int) (end, width int) {
	for i := at; i+2 < len(segment); i++ {
		if segment[i] == '%' && (segment[i:i+3] == slash || segment[i:i+3] == backslash) {
			return i, 3
		}
	}
	return len(segment), 1
}
