package policy

import (
	"os"
	"reflect"
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
	ownPages := map[string]string{"quota-inbound": "quotas.md"}
	declared := map[string]any{
		"api-key-inbound":               apiKeyOptions{},
		"mtls-auth-inbound":             mtlsOptions{},
		"rate-limit-inbound":            rateLimitOptions{},
		"query-param-to-header-inbound": queryParamOptions{},
		"quota-inbound":                 quotaOptions{},
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
