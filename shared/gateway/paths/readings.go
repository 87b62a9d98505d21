package paths

import (
	"slices"
	"strings"
)

// Readings returns the paths that an upstream may make of a canonical one, without
// the path itself: one that decodes encoded slashes, one that takes backslashes for
// slashes too, one that cuts path parameters off, before it decodes, after, or both
// (a servlet container and a filter in it). Each is canonical, and also has decoded
// what may stand in a path as it is: %24 is $. One that ends in a slash, which the
// path itself does not, is there without it too: many upstreams take "/admin/" for
// "/admin".
//
// It is nil for a path without escapes of these and without ";", which needs no
// memory to see. A path is decoded once: for an upstream that decodes twice there
// is no reading.
func Readings(path string) []string {
	if !isOpen(path) {
		return nil
	}
	var out []string
	add := func(text string) {
		if text != path && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, reading := range [...]reading{
		{},
		{backslash: true},
		{cutFirst: true},
		{cutFirst: true, backslash: true},
		{cutLast: true},
		{cutLast: true, backslash: true},
		{cutFirst: true, cutLast: true},
		{cutFirst: true, cutLast: true, backslash: true},
	} {
		text := reading.of(path)
		add(text)
		if whole, gained := strings.CutSuffix(text, "/"); gained && whole != "" && !strings.HasSuffix(path, "/") {
			add(whole)
		}
	}
	return out
}

// isOpen reports whether a canonical path may be read in another way.
func isOpen(path string) bool {
	for i := range len(path) {
		switch path[i] {
		case ';':
			return true
		case '%':
			if c, _ := escapeAt(path, i); is(c, plain) || c == '/' || c == '\\' {
				return true
			}
		}
	}
	return false
}

// reading is a way to read a path.
type reading struct {
	cutFirst, cutLast bool // path parameters, before or after decoding
	backslash         bool // is a slash
}

func (r reading) of(path string) string {
	if r.cutFirst {
		path = cutParameters(path)
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' {
			switch c, _ := escapeAt(path, i); {
			case c == '\\' && r.backslash:
				c = '/'
				fallthrough
			case is(c, plain) || c == '/':
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	path = b.String()
	if r.cutLast {
		path = cutParameters(path)
	}
	if settled, err := settle(path); err == nil {
		return settled
	}
	// No canonical path gets here: dots that only a reading shows were refused.
	return path
}

// cutParameters cuts each segment at its first ";".
func cutParameters(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}
