package policy

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestPoliciesAreDocumented checks that docs/projects.md has a section for every policy, and
// that this section, or the page that it links to, names every option.
func TestPoliciesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/projects.md")
	if err != nil {
		t.Fatal(err)
	}
	ownPages := map[string]string{
		"quota-inbound": "quotas.md", requestValidationType: "descriptions.md", responseValidationType: "descriptions.md",
		complexityType: "graphql.md", introspectionType: "graphql.md", filterType: "graphql.md", analyticsType: "graphql.md",
	}
	declared := map[string]any{
		"api-key-inbound":               apiKeyOptions{},
		"mtls-auth-inbound":             mtlsOptions{},
		"rate-limit-inbound":            rateLimitOptions{},
		"query-param-to-header-inbound": queryParamOptions{},
		"quota-inbound":                 quotaOptions{},
		complexityType:                  complexityOptions{},
		introspectionType:               introspectionOptions{},
		filterType:                      filterOptions{},
		analyticsType:                   analyticsOptions{},
		requestValidationType:           requestValidationOptions{},
		responseValidationType:          responseValidationOptions{},
	}
	for name := range builtins() {
		options, ok := declared[name]
		if !ok {
			t.Errorf("policy %s has no options in this test, want them in declared", name)
			continue
		}
		_, section, found := strings.Cut(string(text), "### `"+name+"`")
		if !found {
			t.Errorf("policy %s has no section in the documentation, want one", name)
		}
		section, _, _ = strings.Cut(section, "\n##")
		if page := ownPages[name]; page != "" {
			if !strings.Contains(section, "]("+page+")") {
				t.Errorf("section of %s has no link, want one to %s", name, page)
			}
			ownPage, err := os.ReadFile("../../../../docs/" + page)
			if err != nil {
				t.Fatal(err)
			}
			section = string(ownPage)
		}
		for field := range reflect.TypeOf(options).Fields() {
			if option := field.Tag.Get("json"); !strings.Contains(section, "`"+option+"`") {
				t.Errorf("documentation of %s lacks the option %s, want all options", name, option)
			}
		}
	}
}

// TestGraphQLIsDocumented checks that the nested options for GraphQL's limits and the classes of errors are documented.
func TestGraphQLIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/graphql.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, options := range []any{depthLimitOptions{}, complexityLimitOptions{}} {
		for field := range reflect.TypeOf(options).Fields() {
			names = append(names, field.Tag.Get("json"))
		}
	}
	for code, class := range builtinClasses {
		row := regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| .*`" + code + "`").FindStringSubmatch(string(text))
		if row == nil || classNames[row[1]] != class {
			t.Errorf("docs/graphql.md: row of %s = %q, want it in the class %v", code, row, class)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(text), name) {
			t.Errorf("docs/graphql.md lacks the option %s, want all nested options", name)
		}
	}
}

// TestAmountsAreDocumented checks that the options of a meter and of the customer key are documented.
func TestAmountsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/quotas.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []any{amountOptions{}, customerKeyOptions{}} {
		for field := range reflect.TypeOf(options).Fields() {
			if option := field.Tag.Get("json"); !strings.Contains(string(text), option) {
				t.Errorf("docs/quotas.md lacks the option %s, want all options", option)
			}
		}
	}
}
