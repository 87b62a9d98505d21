package openapi

import (
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/format/project"
)

// decoder removes the escapes of a text. It returns false if they are malformed, or if the text is not UTF-8.
type decoder func(text string) (string, bool)

var _ = []decoder{decodePath, decodeQuery, decodeNothing, decodeCookie}

func decodePath(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 {
		return text, utf8.ValidString(text)
	}
	decoded, err := url.PathUnescape(text)
	return decoded, err == nil && utf8.ValidString(decoded)
}

func decodeQuery(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 && strings.IndexByte(text, '+') < 0 {
		return text, utf8.ValidString(text)
	}
	decoded, err := url.QueryUnescape(text)
	return decoded, err == nil && utf8.ValidString(decoded)
}

func decodeNothing(text string) (string, bool) { return text, utf8.ValidString(text) }

// decodeField is for values of header fields: white space around them has no meaning.
func decodeField(text string) (string, bool) { return decodeNothing(strings.Trim(text, " \t")) }

// decodeCookie is for cookies. Clients can escape their values, although RFC 6265 has no escapes. So decodeCookie returns a
// value with malformed escapes unchanged.
func decodeCookie(text string) (string, bool) {
	if decoded, ok := decodePath(text); ok {
		return decoded, true
	}
	return decodeNothing(text)
}

// decodeAll decodes texts.
func decodeAll(texts []string, decode decoder) ([]string, bool) {
	out := make([]string, len(texts))
	for i, text := range texts {
		var ok bool
		if out[i], ok = decode(text); !ok {
			return nil, false
		}
	}
	return out, true
}

// splitList returns the items of a list that is one text. An empty text is an empty list.
func splitList(text, separator string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, separator)
}

// splitter reads a parameter that is written as one text, such as "a,b" or "R=1.G=2".
type splitter struct {
	separator string
	// pairs is set if objects are written as R=1.G=2, and not set if they are written as R,1,G,2.
	pairs  bool
	decode decoder
}

// parts returns the possible parts of a text: one for each of the forms text, list and object that the target allows. It
// returns false if an escape is malformed. It returns no parts if the target allows only objects, and the text is none.
func (s splitter) parts(t *target, text string) (parts []part, ok bool) {
	if t.allowsText() {
		decoded, ok := s.decode(text)
		if !ok {
			return nil, false
		}
		parts = append(parts, textPart(decoded))
	}
	if t.allowsList() {
		items, ok := decodeAll(splitList(text, s.separator), s.decode)
		if !ok {
			return nil, false
		}
		parts = append(parts, listPart(items))
	}
	if t.allowsObject() {
		object, ok := s.object(text)
		if !ok {
			return nil, false
		}
		if object != nil {
			parts = append(parts, part{members: object})
		}
	}
	return parts, true
}

// object reads the properties of an object. It returns nil members for a text that is not an object, or that has a name
// twice. It returns false if an escape is malformed.
func (s splitter) object(text string) (members map[string]part, ok bool) {
	members = map[string]part{}
	items := splitList(text, s.separator)
	count := len(items)
	if !s.pairs {
		count /= 2
	}
	defer func() {
		if len(members) < count {
			members = nil
		}
	}()
	if !s.pairs {
		if len(items)%2 > 0 {
			return nil, true
		}
		for i := 0; i < len(items); i += 2 {
			if ok := addMember(members, items[i], items[i+1], s.decode); !ok {
				return nil, false
			}
		}
		return members, true
	}
	for _, item := range items {
		name, value, isPair := strings.Cut(item, "=")
		if !isPair {
			return nil, true
		}
		if ok := addMember(members, name, value, s.decode); !ok {
			return nil, false
		}
	}
	return members, true
}

// addMember adds a property to an object. It returns false, and adds nothing, if an escape is malformed.
func addMember(members map[string]part, name, value string, decode decoder) bool {
	decodedName, ok := decode(name)
	decodedValue, valid := decode(value)
	if ok && valid {
		members[decodedName] = textPart(decodedValue)
	}
	return ok && valid
}

// pathParts returns the possible parts of a parameter in a segment of a path. detail says what is wrong if there are none.
func pathParts(p *parameter, segment string) (parts []part, detail string) {
	var all []part
	for _, s := range pathSplitters(p) {
		text := segment
		switch p.Style {
		case project.StyleLabel:
			if !strings.HasPrefix(text, ".") {
				return nil, `must begin with "." (style label)`
			}
			text = text[1:]
		case project.StyleMatrix:
			var ok bool
			if text, ok = matrixText(p, segment, s); !ok {
				return nil, `must begin with ";" and a name (style matrix)`
			}
		}
		parts, ok := s.parts(p.target, text)
		if !ok {
			return nil, malformedEscape
		}
		all = append(all, parts...)
	}
	if len(all) == 0 {
		return nil, "must have names and values in the style " + p.Style
	}
	return all, ""
}

// pathSplitters returns the possible ways to read a parameter of a path.
func pathSplitters(p *parameter) []splitter {
	switch p.Style {
	case project.StyleLabel:
		if p.Explode {
			return []splitter{{".", true, decodePath}}
		}
		// Until OpenAPI 3.0.3, the specification's examples of lists have dots. RFC 6570 and later versions have commas.
		return []splitter{{",", false, decodePath}, {".", false, decodePath}}
	case project.StyleMatrix:
		if p.Explode {
			return []splitter{{";", true, decodePath}}
		}
	}
	return []splitter{{",", p.Explode, decodePath}}
}

// matrixText removes the name and the semicolons from a segment in the style matrix: ";color=a;color=b" becomes "a;b".
func matrixText(p *parameter, segment string, s splitter) (text string, ok bool) {
	segment, ok = strings.CutPrefix(segment, ";")
	if !ok {
		return "", false
	}
	if s.pairs && p.target.allowsObject() {
		return segment, true
	}
	items := []string{segment}
	if s.pairs {
		items = strings.Split(segment, s.separator)
	}
	for i, item := range items {
		name, value, _ := strings.Cut(item, "=")
		if decoded, ok := decodePath(name); !ok || decoded != p.Name {
			return "", false
		}
		items[i] = value
	}
	return strings.Join(items, s.separator), true
}
