package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// The object of a change is read at the change's own path, or at the path that its declaration
// names (Operation.ReadPath). A custom domain, for example, is changed at the path of the
// collection, with the hostname in the body or in the query, and is read at the path of the domain.

// parameters returns the names in braces of a declared path.
func parameters(declared string) (names []string) {
	for segment := range strings.SplitSeq(declared, "/") {
		if name, ok := strings.CutPrefix(segment, "{"); ok {
			names = append(names, strings.TrimSuffix(name, "}"))
		}
	}
	return names
}

// unknownReadParameter returns the first parameter of ReadPath that is not a parameter of the operation's
// path, a single-valued parameter of its query or a string in its body. It returns "" if there is none.
func (i *input) unknownReadParameter(d Declaration) string {
	if d.ReadPath == d.Path {
		return ""
	}
	for _, name := range parameters(d.ReadPath) {
		if !slices.Contains(i.path, name) && !slices.Contains(i.singleValued, name) &&
			!slices.Contains(i.bodyStrings, name) {
			return name
		}
	}
	return ""
}

// readPath returns the escaped path at which the object of a request is read. It returns "" if the
// request does not name the object. readRequestBody has checked the body before, so it is in memory.
func (i *input) readPath(d Declaration, r *http.Request) string {
	if d.ReadPath == d.Path {
		return r.URL.EscapedPath()
	}
	var out strings.Builder
	for segment := range strings.SplitSeq(strings.TrimPrefix(d.ReadPath, "/"), "/") {
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

// value returns the value of a parameter of the path or query, or
// of a string in the body. It returns "" if the value is missing.
func (i *input) value(name string, r *http.Request) string {
	switch {
	case slices.Contains(i.path, name):
		return r.PathValue(name)
	case slices.Contains(i.singleValued, name):
		return r.URL.Query().Get(name)
	}
	body, err := readBuffered(r)
	var members map[string]json.RawMessage
	if err != nil || decode(body, &members) != nil {
		return "" // the operation itself will refuse the body
	}
	var text string
	if decode(members[name], &text) != nil {
		return ""
	}
	return text
}
