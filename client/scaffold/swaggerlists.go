package scaffold

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi2"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json/jsontext"
)

// maxListNotes is the maximum number of notes about lists that become texts. More are counted.
const maxListNotes = 10

// listMembers are the members of a parameter that restrict a list, or belong to one.
func listMembers() []string {
	return []string{"collectionFormat", "items", "minItems", "maxItems", "uniqueItems", "default", "enum"}
}

// replaceLists makes each parameter a text that is a list with a collectionFormat without an equivalent in OpenAPI 3: tsv,
// and any but csv in a path or a header. As a list, the parameter would be sent and checked with other separators. The
// result has a note for each of these parameters, with its place in the description.
func replaceLists(from *openapi2.T, d document) []string {
	var notes []string
	replaced := 0
	replace := func(p *openapi2.Parameter, at ...string) {
		if p == nil || !p.Type.Is("array") || p.CollectionFormat == "" || hasStyle(p.In, p.CollectionFormat) {
			return
		}
		if replaced++; replaced <= maxListNotes {
			var pointer jsontext.Pointer
			for _, token := range append(at, "collectionFormat") {
				pointer = pointer.AppendToken(token)
			}
			notes = append(notes, fmt.Sprintf("%s: OpenAPI 3 has no equivalent of %s here, so the parameter %s becomes one "+
				"text with all items, which are not checked", d.place(string(pointer)), p.CollectionFormat, p.Name))
		}
		p.Type, p.CollectionFormat, p.Items, p.Default, p.Enum = &openapi3.Types{"string"}, "", nil, nil, nil
		p.MinItems, p.MaxItems, p.UniqueItems = 0, nil, false
	}
	replaceAll := func(parameters openapi2.Parameters, at ...string) {
		for i, p := range parameters {
			replace(p, append(slices.Clone(at), "parameters", strconv.Itoa(i))...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(from.Parameters)) {
		replace(from.Parameters[name], "parameters", name)
	}
	for _, path := range slices.Sorted(maps.Keys(from.Paths)) {
		item := from.Paths[path]
		replaceAll(item.Parameters, "paths", path)
		operations := item.Operations()
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			replaceAll(operations[method].Parameters, "paths", path, strings.ToLower(method))
		}
	}
	if more := replaced - maxListNotes; more > 0 {
		notes = append(notes, fmt.Sprintf("… and %d more lists become texts", more))
	}
	return notes
}
