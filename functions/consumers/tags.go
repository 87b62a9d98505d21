package consumers

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// tagPrefix begins the query parameters that filter by tag: tag.account=foo.
const tagPrefix = "tag."

// maxTagBytes bounds what is asked for: no tag is longer.
const maxTagBytes = 256

// TagQuery is embedded in the In of an operation that takes tag.<property>=
// <value> in its query (contract 3.6). All given tags have to match.
type TagQuery struct {
	// Tags by property, nil when none was given.
	Tags map[string]string `json:"-"`
}

// tagParameter documents TagQuery, as an object whose members are parameters of
// their own (style form, exploded): a parameter tag would have generated clients
// send tag=…, which nothing takes.
func tagParameter() *huma.Param {
	return &huma.Param{
		Name: "tag", In: "query", Style: "form", Explode: new(true),
		Description: "Only where the consumer has these tags: each member is a parameter named tag.<property>, and all have to match.",
		Schema: &huma.Schema{
			Type: huma.TypeObject, AdditionalProperties: &huma.Schema{Type: huma.TypeString, MaxLength: new(maxTagBytes)},
			Examples: []any{map[string]string{"tag.plan": "gold"}},
			// A member of another name would be a parameter that nothing reads, and the call one without its condition.
			Extensions: map[string]any{"propertyNames": map[string]string{"pattern": `^tag\..`}},
		},
	}
}

// Resolve reads the tags; huma calls it.
func (q *TagQuery) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	query := u.Query()
	for _, name := range slices.Sorted(maps.Keys(query)) { // the same answer each time
		values := query[name]
		property, ok := strings.CutPrefix(name, tagPrefix)
		if !ok {
			if name == "tag" {
				return []error{&huma.ErrorDetail{Location: "query.tag", Message: "write the parameter as tag.<property>=<value>"}}
			}
			continue
		}
		if len(property) > maxTagBytes || slices.ContainsFunc(values, func(v string) bool { return len(v) > maxTagBytes }) {
			return []error{&huma.ErrorDetail{Location: "query.tag", Message: "a tag's property and its value have at most " + strconv.Itoa(maxTagBytes) + " bytes each"}}
		}
		if property == "" {
			return []error{&huma.ErrorDetail{Location: "query.tag.", Message: "name a property, as in tag.<property>=<value>"}}
		}
		if q.Tags == nil {
			q.Tags = make(map[string]string)
		}
		for i, v := range values {
			if i > 0 && v != values[0] {
				return []error{&huma.ErrorDetail{Location: "query.tag", Message: "a tag has one value, so that two different ones never match; give each property once"}}
			}
			q.Tags[property] = v
		}
	}
	return nil
}

var _ huma.Resolver = (*TagQuery)(nil)
