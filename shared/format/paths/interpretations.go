package paths

import (
	"slices"
	"strings"
)

// Interpretations returns how upstreams can interpret a canonical path: a list of paths, without the path itself.
// Upstreams can decode encoded slashes, and can treat backslashes as slashes. They can cut off path parameters: before
// decoding, after decoding, or both (a servlet container and a filter inside it). In each interpretation, characters
// that can be in a path without an escape are decoded: %24 is $. If an interpretation ends in a slash and the path
// does not, the result also has the interpretation without the slash: many upstreams treat "/admin/" like "/admin".
//
// It returns nil, without allocating memory, for a path without such escapes and without ";". It
// decodes a path once: the result does not have the interpretations of an upstream that decodes twice.
func Interpretations(path string) []string {
	if !hasInterpretations(path) {
		return nil
	}
	var out []string
	add := func(text string) {
		if text != path && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	for _, mode := range [...]interpretation{
		{},
		{backslash: true},
		{cutFirst: true},
		{cutFirst: true, backslash: true},
		{cutLast: true},
		{cutLast: true, backslash: true},
		{cutFirst: true, cutLast: true},
		{cutFirst: true, cutLast: true, backslash: true},
	} {
		text := mode.apply(path)
		add(text)
		if trimmed, hasSlash := strings.CutSuffix(text, "/"); hasSlash && trimmed != "" && !strings.HasSuffix(path, "/") {
			add(trimmed)
		}
	}
	return out
}

// hasInterpretations reports whether upstreams can interpret a canonical path differently.
func hasInterpretations(path string) bool {
	for i := range len(path) {
		switch path[i] {
		case ';':
			return true
		case '%':
			if c, _ := escapeAt(path, i); hasClass(c, plain) || c == '/' || c == '\\' {
				return true
			}
		}
	}
	return false
}

// interpretation describes how an upstream interprets paths.
type interpretation struct {
	cutFirst, cutLast bool // cut off path parameters before and after decoding
	backslash         bool // treat a decoded backslash as a slash
}

// apply returns the path that such an upstream serves.
func (in interpretation) apply(path string) string {
	if in.cutFirst {
		path = cutParameters(path)
	}
	var b strings.Builder
	for i := 0; i < len(path); i++ {
		if path[i] == '%' {
			switch c, _ := escapeAt(path, i); {
			case c == '\\' && in.backslash:
				c = '/'
				fallthrough
			case hasClass(c, plain) || c == '/':
				b.WriteByte(c)
				i += 2
				continue
			}
		}
		b.WriteByte(path[i])
	}
	path = b.String()
	if in.cutLast {
		path = cutParameters(path)
	}
	if resolved, err := resolve(path); err == nil {
		return resolved
	}
	// Canonical paths do not reach this line: Canonical refuses dot segments that appear only in an interpretation.
	return path
}

// DecodePlain decodes the escapes of characters that can be in a segment of a path without an escape: %3A is ":". All
// other escapes stay, such as %2F. It returns a text without such escapes unchanged, without allocating memory.
func DecodePlain(text string) string {
	var b strings.Builder
	from := 0 // b contains everything before from
	for i := 0; i+2 < len(text); i++ {
		if c, ok := escapeAt(text, i); text[i] == '%' && ok && hasClass(c, plain) {
			b.WriteString(text[from:i])
			b.WriteByte(c)
			i += 2
			from = i + 1
		}
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

// cutParameters cuts each segment at its first ";".
func cutParameters(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		segments[i], _, _ = strings.Cut(segment, ";")
	}
	return strings.Join(segments, "/")
}
