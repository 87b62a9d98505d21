package commands_test

import (
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// TestSchemasCheckFiles checks that the schemas that the command writes accept valid files and refuse invalid ones.
func TestSchemasCheckFiles(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		isValid    bool
	}{
		{"policies", `{"policies": [{"name": "p", "policyType": "rate-limit-inbound", "options": {
			"rateLimitBy": "ip", "requestsAllowed": "$env(LIMIT)", "timeWindowMinutes": 1}}], "corsPolicies": [
			{"name": "c", "allowedOrigins": "https://a.test"}]}`, true},
		{"policies", `{"policies": [{"name": "p", "policyType": "set-status-outbound", "handler": {
			"module": "$import(@gatewright/runtime)", "options": {"status": 404}}}]}`, true},
		{"policies", `{"policies": [{"name": "p", "policyType": "set-status-outbound", "options": {"status": 99}}]}`, false},
		{"policies", `{"policies": [{"name": "p", "policyType": "set-status-outbound", "options": {"state": 200}}]}`, false},
		{"policies", `{"policies": [{"name": "p", "policyType": "set-status-inbound", "options": {}}]}`, false},
		{"policies", `{"corsPolicies": [{"name": "c"}]}`, false},
		{"settings", `{"version": 1, "security": "enforced"}`, true},
		{"settings", `{"version": 1, "security": "off"}`, false},
		{"route", `{"handler": {"export": "urlForwardHandler", "module": "m"}}`, true},
		{"route", `{"handlers": {}}`, false},
	} {
		got := newFixture(t).run("", "schema", tt.name)
		if got.code != 0 {
			t.Fatalf("schema %s = %+v, want code 0", tt.name, got)
		}
		schema, err := jsonschema.UnmarshalJSON(strings.NewReader(got.out))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("embedded:///schema.json", schema); err != nil {
			t.Fatal(err)
		}
		compiled, err := c.Compile("embedded:///schema.json")
		if err != nil {
			t.Fatalf("compile the schema %s: %v", tt.name, err)
		}
		file, err := jsonschema.UnmarshalJSON(strings.NewReader(tt.file))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiled.Validate(file); (err == nil) != tt.isValid {
			t.Errorf("schema %s: Validate(%s) = %v, want valid: %t", tt.name, tt.file, err, tt.isValid)
		}
	}
	got := newFixture(t).run("", "schema", "routes")
	if got.code != exit.Usage || !strings.Contains(got.err, "name one of") {
		t.Errorf("schema routes = %+v, want code %d and the names of schemas", got, exit.Usage)
	}
}
