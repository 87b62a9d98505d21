package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestGraphQLOptionLimits checks which options are refused, and that each problem names the place of the invalid value.
// A name that can't be in any schema is refused, too: it would hide or exempt nothing, while its project relies on it.
func TestGraphQLOptionLimits(t *testing.T) {
	t.Parallel()
	list := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"n%d"`, i)
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	codes := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"C%d":"auth"`, i)
		}
		return `{"errorCodeClassification":{` + strings.Join(all, ",") + `}}`
	}
	type constructor func(string, json.RawMessage, *Setup) (Provisioned, []project.Problem)
	for _, test := range []struct {
		name      string
		construct constructor
		options   string
		at        []string // the places of the problems
	}{
		{"limits", newComplexityLimit, `{"maxDepth":0,"maxComplexity":1}`, nil},
		{"no limit", newComplexityLimit, `{}`, []string{""}},
		{"a negative limit", newComplexityLimit, `{"maxDepth":-1}`, []string{"/maxDepth"}},
		{"a limit of 0", newComplexityLimit, `{"maxComplexity":0}`, []string{"/maxComplexity"}},
		{"two depths", newComplexityLimit, `{"maxDepth":1,"useDepthLimit":{"depthLimit":1}}`, []string{"/useDepthLimit"}},
		{
			"two complexities", newComplexityLimit, `{"maxComplexity":1,"useComplexityLimit":{"complexityLimit":1}}`,
			[]string{"/useComplexityLimit"},
		},
		{
			"the maximum number of ignored names", newComplexityLimit,
			`{"useDepthLimit":{"depthLimit":1,"ignore":` + list(maxIgnored) + `}}`, nil,
		},
		{
			"too many ignored names", newComplexityLimit,
			`{"useDepthLimit":{"depthLimit":1,"ignore":` + list(maxIgnored+1) + `}}`,
			[]string{"/useDepthLimit/ignore"},
		},
		{
			"patterns as ignored names", newComplexityLimit,
			`{"useDepthLimit":{"depthLimit":1,"ignore":["a","edge*","/a/","a b",""]}}`,
			[]string{"/useDepthLimit/ignore/1", "/useDepthLimit/ignore/2", "/useDepthLimit/ignore/3", "/useDepthLimit/ignore/4"},
		},
		{
			"the maximum number of hidden names", newIntrospectionFilter,
			`{"excludeTypes":` + list(maxExcluded-2) + `,"excludeTypeFields":{"A":["a","b"]}}`, nil,
		},
		{
			"too many hidden names", newIntrospectionFilter,
			`{"excludeTypes":` + list(maxExcluded-2) + `,"excludeTypeFields":{"A":["a","b"],"B":["c"]}}`,
			[]string{""},
		},
		{"no hidden names", newIntrospectionFilter, `{"excludeTypes":[],"excludeTypeFields":{"A":[]}}`, []string{""}},
		{
			"patterns as hidden names", newIntrospectionFilter,
			`{"excludeTypes":["A*"],"excludeTypeFields":{"A.b":["c"],"A":["d","e-f"]}}`,
			[]string{"/excludeTypes/0", "/excludeTypeFields/A/1", "/excludeTypeFields/A.b"},
		},
		{"the maximum number of codes", newAnalytics, codes(maxClassifiedCodes), nil},
		{"too many codes", newAnalytics, codes(maxClassifiedCodes + 1), []string{"/errorCodeClassification"}},
		{"an unknown class", newAnalytics, `{"errorCodeClassification":{"A":"bad"}}`, []string{"/errorCodeClassification/A"}},
	} {
		_, problems := test.construct("", json.RawMessage(test.options), nil)
		var at []string
		for _, p := range problems {
			at = append(at, strings.TrimPrefix(p.Path, "/options"))
		}
		if !slices.Equal(at, test.at) {
			t.Errorf("options with %s: problems at %q, want them at %q", test.name, at, test.at)
		}
	}
}
