package consumers

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// tagPrefix is the prefix of the query parameters that filter by tag, as in tag.account=foo.
const tagPrefix = "tag."

// maxTagBytes is the maximum length of a tag's property in the query, and of its value, in bytes. The properties and
// values of stored tags are not longer.
const maxTagBytes = 256

// TagQuery is embedded in the inputs of operations with query parameters of the form tag.<property>=<value> (contract
// 3.6). A consumer must have all tags in the query.
type TagQuery struct {
	// Tags maps the properties in the query to their values. It is nil if the query has no tags.
	Tags map[string]string `json:"-"`
}

// tagParameter documents TagQuery as an object whose members are sent as separate parameters (style form, explode).
// With a plain parameter named tag, generated clients would send tag=…, which no operation accepts.
func tagParameter() *huma.Param {
	return &huma.Param{
		Name: "tag", In: "query", Style: "form", Explode: new(true),
		Description: "Only where the consumer has these tags: each member is a parameter named tag.<property>, and all " +
			"have to match.",
		Schema: &huma.Schema{
			Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString, MaxLength: new(maxTagBytes)},
			Examples: []any{map[string]string{"tag.plan": "gold"}},
			// The members must have the prefix in their names: operations ignore a parameter without it, and would return
			// consumers without the tag.
			Extensions: map[string]any{"propertyNames": map[string]string{"pattern": `^tag\..`}},
		},
	}
}

// Resolve implements huma.Resolver. It reads the tags from the query, and returns an error for an invalid tag.
func (q *TagQuery) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	query := u.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) { // report the same error each time
		values := query[name]
		property, ok := strings.CutPrefix(name, tagPrefix)
		if !ok {
			if name == "tag" {
				return []error{&huma.ErrorDetail{Location: "query.tag", Message: "write the parameter as tag.<property>=<value>"}}
			}
			continue
		}
		if len(property) > maxTagBytes || slices.ContainsFunc(values, func(v string) bool { return len(v) > maxTagBytes }) {
			return []error{&huma.ErrorDetail{Location: "query.tag", Message: "a tag's property and its value have at most " +
				strconv.Itoa(maxTagBytes) + " bytes each"}}
		}
		if property == "" {
			return []error{&huma.ErrorDetail{Location: "query.tag.", Message: "name a property, as in tag.<property>=<value>"}}
		}
		if q.Tags == nil {
			q.Tags = make(map[string]string)
		}
		for i, v := range values {
			if i > 0 && v != values[0] {
				return []error{&huma.ErrorDetail{Location: "query.tag", Message: "a tag has one value, so that two different " +
					"ones never match; give each property once"}}
			}
			q.Tags[property] = v
		}
	}
	return nil
}

var _ huma.Resolver = (*TagQuery)(nil)
