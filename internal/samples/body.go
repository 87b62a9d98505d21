package samples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
)

// The media types of forms.
const (
	urlEncoded = "application/x-www-form-urlencoded"
	formData   = "multipart/form-data"
)

// mediaType chooses one of the media types of a body. JSON is preferred, then forms and text.
func (d *Document) mediaType(content place) (name string, media place, has bool) {
	object, _ := content.value.(map[string]any)
	rank := func(name string) int {
		base, _, _ := strings.Cut(strings.ToLower(name), ";")
		switch {
		case base == "application/json":
			return 0
		case strings.HasSuffix(base, "+json"):
			return 1
		case base == urlEncoded:
			return 2
		case base == formData:
			return 3
		case strings.HasPrefix(base, "text/"):
			return 4
		}
		return 5
	}
	names := slices.Sorted(maps.Keys(object))
	if len(names) == 0 {
		return "", place{}, false
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	media, has = d.resolve(content.member(names[0]))
	return names[0], media, has
}

// body returns a body of a media type or of a range.
func (d *Document) body(mediaType string, media place) (text []byte, contentType string, err error) {
	base, _, _ := strings.Cut(strings.ToLower(mediaType), ";")
	base = strings.TrimSpace(base)
	switch base {
	case "*/*", "application/*":
		base, mediaType = "application/json", "application/json"
	case "text/*":
		base, mediaType = "text/plain", "text/plain"
	}
	contentType = strings.ReplaceAll(mediaType, "*", "x")
	if _, _, err := mime.ParseMediaType(contentType); err != nil {
		contentType = base // the parameters are malformed
	}
	schema := media.member("schema")
	isJSON := base == "application/json" || strings.HasSuffix(base, "+json")
	isChecked := isJSON || base == urlEncoded || base == formData ||
		strings.HasPrefix(base, "text/") && base != "text/xml"
	if !isChecked {
		return []byte("content"), contentType, nil
	}
	_, err = d.sampleOrText(schema, func(value any) error {
		switch {
		case isJSON:
			text, err = json.Marshal(value)
		case base == urlEncoded:
			text, err = urlEncodedBody(media.member("encoding"), value)
		case base == formData:
			text, contentType, err = d.multipartBody(schema, media.member("encoding"), value)
		default:
			var plain string
			plain, err = scalar(value)
			text = []byte(plain)
		}
		if err == nil && len(text) == 0 {
			err = errNoValue // the body would be missing
		}
		return err
	})
	return text, contentType, err
}

// sampleOrText is like sample, but returns a text if there is no schema.
func (d *Document) sampleOrText(schema place, usable func(any) error) (any, error) {
	if schema.value == nil {
		return "v1", usable("v1")
	}
	return d.sample(schema, usable)
}

// urlEncodedBody returns an object as a URL-encoded form. The encodings say how the properties are written. Without an
// encoding, the items of a list are fields with the same name, and objects are JSON.
func urlEncodedBody(encoding place, value any) ([]byte, error) {
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, errStyle
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		style, explode := "form", true
		declared := encoding.member(name)
		_, hasExplode := member(declared.value, "explode").(bool)
		hasStyle := declared.text("style") != "" || hasExplode
		if text := declared.text("style"); text != "" {
			style, explode = text, text == "form"
		}
		if hasExplode {
			explode = member(declared.value, "explode") == true
		}
		item := object[name]
		if _, isObject := item.(map[string]any); isObject && !hasStyle {
			text, err := json.Marshal(item)
			if err != nil {
				return nil, fmt.Errorf("write a property as JSON: %w", err)
			}
			item = string(text)
		}
		if _, err := scalar(item); style == "deepObject" && err == nil {
			style, explode = "form", true
		}
		pairs, err := pairsOf(style, explode, queryEscape(name), item, queryEscape)
		if err != nil {
			return nil, err
		}
		all = append(all, pairs...)
	}
	return []byte(strings.Join(all, "&")), nil
}

// multipartBody returns an object as a multipart form, and its media type.
func (d *Document) multipartBody(schema, encoding place, value any) ([]byte, string, error) {
	object, isObject := value.(map[string]any)
	if !isObject {
		return nil, "", errStyle
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary("samples") // is valid
	for _, name := range slices.Sorted(maps.Keys(object)) {
		items, isList := object[name].([]any)
		if !isList {
			items = []any{object[name]}
		}
		for _, item := range items {
			contentType, _, _ := strings.Cut(encoding.member(name).text("contentType"), ",")
			text, err := scalar(item)
			if err != nil {
				var encoded []byte
				encoded, err = json.Marshal(item)
				text = string(encoded)
				if contentType == "" {
					contentType = "application/json"
				}
			}
			if err != nil {
				return nil, "", fmt.Errorf("write a part: %w", err)
			}
			header := textproto.MIMEHeader{}
			disposition := "form-data; name=" + strconv.Quote(name)
			if d.isFile(schema, name) {
				disposition += `; filename="file"`
				contentType = firstOf(contentType, "application/octet-stream")
			}
			header.Set("Content-Disposition", disposition)
			if contentType != "" {
				header.Set("Content-Type", strings.ReplaceAll(contentType, "*", "x"))
			}
			part, err := w.CreatePart(header)
			if err == nil {
				_, err = part.Write([]byte(text))
			}
			if err != nil {
				return nil, "", fmt.Errorf("write a part: %w", err)
			}
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", fmt.Errorf("write a multipart form: %w", err)
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// isFile reports whether a property of a form is a file, or a list of files.
func (d *Document) isFile(schema place, name string) bool {
	g := &generator{d: d}
	rules, err := g.flatten(nil, schema, 0)
	if err != nil {
		return false
	}
	schemas, _ := propertySchemas(rules, name)
	for _, p := range schemas {
		all, err := g.flatten(nil, p, 0)
		if err != nil {
			continue
		}
		for _, r := range all {
			items, _ := d.resolve(r.member("items"))
			if r.text("format") == "binary" || items.text("format") == "binary" {
				return true
			}
		}
	}
	return false
}
