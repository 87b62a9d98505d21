package validationpeer_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// rawText is a value that is written as it is, such as a number that JSON does not allow.
type rawText string

// encodeJSON writes a value as JSON.
func encodeJSON(value any) string {
	switch v := value.(type) {
	case rawText:
		return string(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = encodeJSON(item)
		}
		return "[" + strings.Join(items, ",") + "]"
	case map[string]any:
		var members []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			members = append(members, encodeJSON(name)+":"+encodeJSON(v[name]))
		}
		return "{" + strings.Join(members, ",") + "}"
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// text writes a value within a parameter or a form.
func text(value any) string {
	if s, ok := value.(string); ok {
		return s
	}
	return encodeJSON(value)
}

// escapePath and escapeQuery escape a text. They leave more characters as they are than they must, as clients do.
func escapePath(s string) string {
	return strings.NewReplacer("%3D", "=", "%3A", ":", "%40", "@", "%2B", "+").Replace(url.PathEscape(s))
}

func escapeQuery(s string) string { return url.QueryEscape(s) }

func noEscape(s string) string { return s }

// sequence writes a list or an object as one text: "a,b", "R,1,G,2", or "R=1,G=2" for pairs. Other values are written as
// one text.
func sequence(value any, separator string, pairs bool, escape func(string) string) string {
	var out []string
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			out = append(out, escape(text(item)))
		}
	case map[string]any:
		between := separator
		if pairs {
			between = "="
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, escape(name)+between+escape(text(v[name])))
		}
	default:
		return escape(text(value))
	}
	return strings.Join(out, separator)
}

// segment writes a parameter of the path.
func (p *parameter) segment(value any) string {
	switch p.Style {
	case "label":
		separator := ","
		if p.explodes() {
			separator = "."
		}
		return "." + sequence(value, separator, p.explodes(), escapePath)
	case "matrix":
		list, isList := value.([]any)
		_, isObject := value.(map[string]any)
		switch {
		case p.explodes() && isObject:
			return ";" + sequence(value, ";", true, escapePath)
		case p.explodes() && isList:
			out := ""
			for _, item := range list {
				out += ";" + p.Name + "=" + escapePath(text(item))
			}
			return out
		}
		return ";" + p.Name + "=" + sequence(value, ",", false, escapePath)
	}
	return sequence(value, ",", p.explodes(), escapePath)
}

// pairs writes a parameter of the query, of a form or of cookies as pairs of a name and a value.
func pairs(name, style string, explode bool, value any, escape func(string) string) []string {
	list, isList := value.([]any)
	object, isObject := value.(map[string]any)
	var out []string
	switch {
	case style == "deepObject" && isObject:
		for _, member := range slices.Sorted(maps.Keys(object)) {
			out = append(out, escape(name+"["+member+"]")+"="+escape(text(object[member])))
		}
	case explode && isObject:
		for _, member := range slices.Sorted(maps.Keys(object)) {
			out = append(out, escape(member)+"="+escape(text(object[member])))
		}
	case explode && isList:
		for _, item := range list {
			out = append(out, escape(name)+"="+escape(text(item)))
		}
	default:
		separator := map[string]string{"spaceDelimited": escape(" "), "pipeDelimited": "|"}[style]
		if separator == "" {
			separator = ","
		}
		out = append(out, escape(name)+"="+sequence(value, separator, false, escape))
	}
	return out
}

// form writes an object as a form in URL encoding.
func (m *mediaType) form(value any) []string {
	object, ok := value.(map[string]any)
	if !ok {
		return []string{escapeQuery(text(value))}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		e, declared := m.Encoding[name]
		switch {
		case e.ContentType != "":
			out = append(out, escapeQuery(name)+"="+escapeQuery(encodeJSON(object[name])))
		case declared:
			out = append(out, pairs(name, e.Style, e.Explode, object[name], escapeQuery)...)
		default:
			out = append(out, pairs(name, "form", true, object[name], escapeQuery)...)
		}
	}
	return out
}

// boundary separates the parts of multipart forms.
const boundary = "limit"

// multipart writes an object as the parts of a form.
func multipart(value any) []string {
	object, ok := value.(map[string]any)
	if !ok {
		return []string{part("value", text(value))}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		list, isList := object[name].([]any)
		if !isList {
			list = []any{object[name]}
		}
		for _, item := range list {
			out = append(out, part(name, text(item)))
		}
	}
	return out
}

func part(name, body string) string {
	return fmt.Sprintf("--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", boundary, name, body)
}
