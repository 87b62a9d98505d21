package samples

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// parameter is the description of a parameter.
type parameter struct{ place }

func (p parameter) isRequired() bool {
	return member(p.value, "required") == true || p.text("in") == "path"
}

// errStyle is the error for a value that the style of a parameter cannot express.
var errStyle = errors.New("the style of the parameter cannot express the value")

// add adds a valid value of a parameter to the request.
func (r *request) add(p parameter) error {
	in, name := p.text("in"), p.text("name")
	if in == "header" && isReserved(name) {
		return nil
	}
	if content, _ := p.member("content").value.(map[string]any); len(content) > 0 {
		return r.addContent(in, name, p.member("content"), slices.Sorted(maps.Keys(content))[0])
	}
	style := p.text("style")
	if style == "" {
		style = map[string]string{"path": "simple", "header": "simple", "query": "form", "cookie": "form"}[in]
	}
	explode, isSet := member(p.value, "explode").(bool)
	if !isSet {
		explode = style == "form"
	}
	schema := p.member("schema")
	if schema.value == nil {
		return r.write(in, name, style, explode, "v1")
	}
	value, err := r.d.sample(schema, func(value any) error {
		return (&request{path: map[string]string{}, header: http.Header{}}).write(in, name, style, explode, value)
	})
	if err != nil {
		return fmt.Errorf("parameter %s: %w", name, err)
	}
	return r.write(in, name, style, explode, value)
}

// addContent adds a valid value of a parameter that is described by a media type.
func (r *request) addContent(in, name string, content place, mediaType string) error {
	value, err := r.d.sample(content.member(mediaType).member("schema"), func(any) error { return nil })
	if err != nil {
		return fmt.Errorf("parameter %s: %w", name, err)
	}
	base, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	if isJSON := base == "application/json" || strings.HasSuffix(base, "+json"); isJSON {
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("parameter %s: %w", name, err)
		}
		value = string(text)
	}
	style := "simple"
	if in == "query" || in == "cookie" {
		style = "form"
	}
	return r.write(in, name, style, false, value)
}

// isReserved reports whether a header has a meaning of its own, so that a generated value would change the request.
// OpenAPI ignores parameters with the first three names.
func isReserved(name string) bool {
	return slices.Contains([]string{
		"accept", "content-type", "authorization", "content-length", "host", "connection", "transfer-encoding",
		"content-encoding", "expect", "upgrade", "te", "trailer", "keep-alive", "cookie",
	}, strings.ToLower(name))
}

// write writes a value in a style.
func (r *request) write(in, name, style string, explode bool, value any) error {
	escape := queryEscape
	if in == "header" {
		escape = func(text string) string { return text }
	}
	pairs, err := pairsOf(style, explode, escape(name), value, escape)
	if err != nil {
		return err
	}
	switch in {
	case "path":
		text := strings.Join(pairs, "")
		if text == "" || text == "." || text == ".." {
			return errStyle // such a segment of a path has another meaning
		}
		r.path[name] = text
	case "query":
		r.query = append(r.query, pairs...)
	case "header":
		if len(pairs) != 1 || strings.ContainsFunc(pairs[0], func(c rune) bool { return c < ' ' || c >= 0x7f }) ||
			strings.TrimSpace(pairs[0]) != pairs[0] {
			return errStyle
		}
		r.header[http.CanonicalHeaderKey(name)] = pairs
	case "cookie":
		r.cookie = append(r.cookie, pairs...)
	default:
		return errStyle
	}
	return nil
}

// pairsOf returns a value in a style: name=value for the styles of queries and cookies, and one text for the others.
func pairsOf(style string, explode bool, name string, value any, escape func(string) string) ([]string, error) {
	prefix, separator := "", ","
	switch style {
	case "label":
		prefix = "."
		if explode {
			separator = "."
		}
	case "matrix":
		return matrix(explode, name, value, escape)
	case "form":
		return form(explode, name, value, escape, ",")
	case "spaceDelimited":
		return form(explode, name, value, escape, "%20")
	case "pipeDelimited":
		return form(explode, name, value, escape, "%7C")
	case "deepObject":
		switch v := value.(type) {
		case map[string]any:
			return deep(name, v, escape)
		case []any:
			object := map[string]any{}
			for i, item := range v {
				object[strconv.Itoa(i)] = item
			}
			return deep(name, object, escape)
		}
		return nil, errStyle
	case "simple":
	default:
		return nil, errStyle
	}
	texts, err := flat(value, explode, escape)
	if err != nil {
		return nil, err
	}
	return []string{prefix + strings.Join(texts, separator)}, nil
}

// flat returns the items of a list, or the names and values of an object.
func flat(value any, pairs bool, escape func(string) string) (out []string, err error) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			text, err := scalar(item)
			if err != nil || text == "" {
				return nil, errStyle
			}
			out = append(out, escape(text))
		}
		if len(v) == 0 {
			return nil, errStyle // an empty list looks like an empty text
		}
		return out, nil
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			text, err := scalar(v[name])
			if err != nil {
				return nil, err
			}
			if pairs {
				out = append(out, escape(name)+"="+escape(text))
			} else {
				out = append(out, escape(name), escape(text))
			}
		}
		if len(v) == 0 {
			return nil, errStyle
		}
		return out, nil
	}
	text, err := scalar(value)
	return []string{escape(text)}, err
}

func matrix(explode bool, name string, value any, escape func(string) string) ([]string, error) {
	texts, err := flat(value, explode, escape)
	if err != nil {
		return nil, err
	}
	_, isObject := value.(map[string]any)
	switch {
	case explode && isObject:
		return []string{";" + strings.Join(texts, ";")}, nil
	case explode:
		return []string{";" + name + "=" + strings.Join(texts, ";"+name+"=")}, nil
	}
	return []string{";" + name + "=" + strings.Join(texts, ",")}, nil
}

func form(explode bool, name string, value any, escape func(string) string, separator string) ([]string, error) {
	texts, err := flat(value, explode, escape)
	if err != nil {
		return nil, err
	}
	_, isObject := value.(map[string]any)
	switch {
	case explode && isObject:
		return texts, nil
	case explode:
		for i, text := range texts {
			texts[i] = name + "=" + text
		}
		return texts, nil
	}
	return []string{name + "=" + strings.Join(texts, separator)}, nil
}

func deep(name string, object map[string]any, escape func(string) string) (out []string, err error) {
	for _, property := range slices.Sorted(maps.Keys(object)) {
		text, err := scalar(object[property])
		if err != nil {
			return nil, err
		}
		out = append(out, name+"["+escape(property)+"]="+escape(text))
	}
	if len(out) == 0 {
		return nil, errStyle
	}
	return out, nil
}

// scalar returns the text of a value that is no list and no object.
func scalar(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case json.Number:
		return string(v), nil
	case bool:
		if v {
			return "true", nil
		}
		return "false", nil
	case nil:
		return "null", nil
	}
	return "", errStyle
}
