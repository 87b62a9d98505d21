package policy

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// TestPoliciesAreDocumented keeps docs/projects.md complete: every policy and
// every option of it stands there, or on a page of its own that is named there.
func TestPoliciesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/projects.md")
	if err != nil {
		t.Fatal(err)
	}
	ownPages := map[string]string{
		"quota-inbound": "quotas.md",
		complexityType:  "graphql.md", introspectionType: "graphql.md", filterType: "graphql.md", analyticsType: "graphql.md",
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
	}
	for name := range builtins() {
		options, ok := declared[name]
		if !ok {
			t.Errorf("add the options of %s to this test", name)
			continue
		}
		_, section, found := strings.Cut(string(text), "### `"+name+"`")
		if !found {
			t.Errorf("%s has no section", name)
		}
		section, _, _ = strings.Cut(section, "\n##")
		if page := ownPages[name]; page != "" {
			if !strings.Contains(section, "]("+page+")") {
				t.Errorf("the section of %s leads not to %s", name, page)
			}
			own, err := os.ReadFile("../../../docs/" + page)
			if err != nil {
				t.Fatal(err)
			}
			section = string(own)
		}
		for field := range reflect.TypeOf(options).Fields() {
			if option := field.Tag.Get("json"); !strings.Contains(section, "`"+option+"`") {
				t.Errorf("the section of %s lacks the option %s", name, option)
			}
		}
	}
}

// TestGraphQLIsDocumented does so for the nested spellings of GraphQL's limits, and for the classes of
// errors.
func TestGraphQLIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/graphql.md")
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
			t.Errorf("docs/graphql.md has %s not in its class", code)
		}
	}
	for _, name := range names {
		if !strings.Contains(string(text), name) {
			t.Errorf("docs/graphql.md lacks %s", name)
		}
	}
}

// TestAmountsAreDocumented does so for the options of a meter.
func TestAmountsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/quotas.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, options := range []any{amountOptions{}, customerKeyOptions{}} {
		for field := range reflect.TypeOf(options).Fields() {
			if option := field.Tag.Get("json"); !strings.Contains(string(text), option) {
				t.Errorf("docs/quotas.md lacks the option %s", option)
			}
		}
	}
}
