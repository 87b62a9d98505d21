package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// What a change is about is read at the change's own path, or at the one that its
// declaration names (Operation.ReadAt): a custom domain is changed at the path of all of
// them, by the hostname in the body or in the query, and read at its own.

// parameters are the names in braces of a path as declared.
func parameters(declared string) (names []string) {
	for segment := range strings.SplitSeq(declared, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// unknown gives the first parameter of where an operation is read that is none of its
// path or query, and no text of its body; "" for none.
func (i *input) unknown(d Declaration) string {
	if d.ReadAt == d.Path {
		return ""
	}
	for _, name := range parameters(d.ReadAt) {
		if !slices.Contains(i.path, name) && !slices.Contains(i.single, name) && !slices.Contains(i.texts, name) {
			return name
		}
	}
	return ""
}

// readAt gives the path, escaped, at which what a request is about is read; "" where the
// request does not say what that is. Its body was checked and is in memory (body.go).
func (i *input) readAt(d Declaration, r *http.Request) string {
	if d.ReadAt == d.Path {
		return r.URL.EscapedPath()
	}
	var out strings.Builder
	for segment := range strings.SplitSeq(strings.TrimPrefix(d.ReadAt, "/"), "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			value := i.value(strings.TrimSuffix(name, "}"), r)
			if value == "" {
				return ""
			}
			segment = url.PathEscape(value)
		}
		out.WriteString("/" + segment)
	}
	return out.String()
}

// value is that of a parameter of the path or query, or of a text of the body; "" for none.
func (i *input) value(name string, r *http.Request) string {
	switch {
	case slices.Contains(i.path, name):
		return r.PathValue(name)
	case slices.Contains(i.single, name):
		return r.URL.Query().Get(name)
	}
	body, err := buffered(r)
	var members map[string]json.RawMessage
	if err != nil || decode(body, &members) != nil {
		return "" // which the operation itself refuses
	}
	var text string
	if decode(members[name], &text) != nil {
		return ""
	}
	return text
}
