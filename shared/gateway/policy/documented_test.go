package policy

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// TestPoliciesAreDocumented keeps docs/projects.md complete: every policy and
// every option of it stands there.
func TestPoliciesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/projects.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]any{
		"api-key-inbound":               apiKeyOptions{},
		"mtls-auth-inbound":             mtlsOptions{},
		"rate-limit-inbound":            rateLimitOptions{},
		"query-param-to-header-inbound": queryParamOptions{},
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
		for field := range reflect.TypeOf(options).Fields() {
			if option := field.Tag.Get("json"); !strings.Contains(section, "`"+option+"`") {
				t.Errorf("the section of %s lacks the option %s", name, option)
			}
		}
	}
}
