package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// TestOptionsOfGraphQLPoliciesAreTakenUpToTheirBounds, and a problem names the place of what is beyond: a name that no
// schema has hides or exempts nothing, and its project would take it for a protection.
func TestOptionsOfGraphQLPoliciesAreTakenUpToTheirBounds(t *testing.T) {
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
	type maker func(string, json.RawMessage, *Setup) (Provisioned, []project.Problem)
	for _, test := range []struct {
		name    string
		make    maker
		options string
		at      []string // of problems
	}{
		{"limits", newComplexityLimit, `{"maxDepth":0,"maxComplexity":1}`, nil},
		{"no limit", newComplexityLimit, `{}`, []string{""}},
		{"a negative limit", newComplexityLimit, `{"maxDepth":-1}`, []string{"/maxDepth"}},
		{"a limit of nothing", newComplexityLimit, `{"maxComplexity":0}`, []string{"/maxComplexity"}},
		{"two depths", newComplexityLimit, `{"maxDepth":1,"useDepthLimit":{"depthLimit":1}}`, []string{"/useDepthLimit"}},
		{"two complexities", newComplexityLimit, `{"maxComplexity":1,"useComplexityLimit":{"complexityLimit":1}}`, []string{"/useComplexityLimit"}},
		{"names", newComplexityLimit, `{"useDepthLimit":{"depthLimit":1,"ignore":` + list(maxIgnored) + `}}`, nil},
		{"more names", newComplexityLimit, `{"useDepthLimit":{"depthLimit":1,"ignore":` + list(maxIgnored+1) + `}}`, []string{"/useDepthLimit/ignore"}},
		{
			"patterns", newComplexityLimit, `{"useDepthLimit":{"depthLimit":1,"ignore":["a","edge*","/a/","a b",""]}}`,
			[]string{"/useDepthLimit/ignore/1", "/useDepthLimit/ignore/2", "/useDepthLimit/ignore/3", "/useDepthLimit/ignore/4"},
		},
		{"hidden names", newIntrospectionFilter, `{"excludeTypes":` + list(maxExcluded-2) + `,"excludeTypeFields":{"A":["a","b"]}}`, nil},
		{"more hidden names", newIntrospectionFilter, `{"excludeTypes":` + list(maxExcluded-2) + `,"excludeTypeFields":{"A":["a","b"],"B":["c"]}}`, []string{""}},
		{"nothing hidden", newIntrospectionFilter, `{"excludeTypes":[],"excludeTypeFields":{"A":[]}}`, []string{""}},
		{
			"hidden patterns", newIntrospectionFilter, `{"excludeTypes":["A*"],"excludeTypeFields":{"A.b":["c"],"A":["d","e-f"]}}`,
			[]string{"/excludeTypes/0", "/excludeTypeFields/A/1", "/excludeTypeFields/A.b"},
		},
		{"codes", newAnalytics, codes(maxClassified), nil},
		{"more codes", newAnalytics, codes(maxClassified + 1), []string{"/errorCodeClassification"}},
		{"a class that is none", newAnalytics, `{"errorCodeClassification":{"A":"bad"}}`, []string{"/errorCodeClassification/A"}},
	} {
		_, problems := test.make("", json.RawMessage(test.options), nil)
		var at []string
		for _, p := range problems {
			at = append(at, strings.TrimPrefix(p.Path, "/options"))
		}
		if !slices.Equal(at, test.at) {
			t.Errorf("%s: problems at %q, want %q", test.name, at, test.at)
		}
	}
}
