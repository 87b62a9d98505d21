package scaffold

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// indent returns the description with indentation, or without if it would otherwise be too large for a build.
func indent(root []member) ([]byte, error) {
	text := jsontext.Value(writeObject(root))
	if int64(len(text)) >= MaxBytes() {
		return nil, fmt.Errorf("the description would have more than %d bytes with its routes, the maximum size of a file "+
			"in a project: divide it into several", MaxBytes())
	}
	if indentedSize(text) < MaxBytes() {
		if err := text.Indent(jsontext.WithIndent("  ")); err != nil {
			return nil, fmt.Errorf("write the routes: %w", err)
		}
	}
	return append(text, '\n'), nil
}

// indentedSize returns the size of a JSON text after indentation by two spaces. The text is valid, and has no white space
// outside of strings. Indentation of deep lists can multiply the size of a text, so that it is computed before.
func indentedSize(text []byte) int64 {
	size, depth := int64(len(text)), int64(0)
	inString := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++ // the next character is escaped
		case c == '"':
			inString = !inString
		case inString:
		case c == ':':
			size++
		case c == ',':
			size += 1 + 2*depth
		case c == '{' || c == '[':
			if next := text[i+1]; next == '}' || next == ']' {
				i++ // an empty object or list stays in its line
				continue
			}
			depth++
			size += 1 + 2*depth
		case c == '}' || c == ']':
			depth--
			size += 1 + 2*depth
		}
	}
	return size
}
