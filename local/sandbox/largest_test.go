package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestLargestPublicDescriptionStaysWithinLimits builds a description as large as the largest public one, Microsoft
// Graph: 11,422 operations in 20 MB. Each operation has parameters, a body and the policy that validates them, and the
// schemas refer to each other.
func TestLargestPublicDescriptionStaysWithinLimits(t *testing.T) {
	if underRace {
		t.Skip("the race detector needs more memory than a child may have")
	}
	const operations, schemas = 11_422, 3_000
	description := largeDescription(operations, schemas)
	if size := len(description) >> 20; size < 20 || size > 23 {
		t.Fatalf("the description has %d MiB, want 20 to 23", size)
	}
	builder := startBuilder(t)
	result := builder.build(t, "the description", packFiles(
		"config/routes.oas.json", description,
		"config/policies.json", `{"policies": [{"name": "validate", "policyType": "request-validation-inbound", `+
			`"handler": {"export": "RequestValidationInboundPolicy", "module": "$import(@gatewright/runtime)"}}]}`))
	peak := builder.stop(t)
	t.Logf("%d MiB of memory, %v of processor time", peak>>20, result.CPUTime)
	if len(result.Result.Errors)+len(result.Result.Warnings) > 0 {
		t.Errorf("errors, warnings = %.5v, %.5v, want none", result.Result.Errors, result.Result.Warnings)
	}
	if result.Routes != operations {
		t.Errorf("routes of the artifact = %d, want %d", result.Routes, operations)
	}
	if peak > project.BuildMemory {
		t.Errorf("peak memory of the process = %d MiB, want at most %d", peak>>20, project.BuildMemory>>20)
	}
}

// largeDescription returns a description with n operations, whose bodies have one of m schemas.
func largeDescription(n, m int) string {
	var b strings.Builder
	b.WriteString(`{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, ` +
		`"servers": [{"url": "https://example.com"}], "paths": {`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"/area%[1]d/items/{id}": {"post": {"operationId": "area.items_%[1]d", "summary": %[4]q, `+
			`"description": %[5]q, "parameters": [`+
			`{"name": "id", "in": "path", "required": true, "description": %[4]q, `+
			`"schema": {"type": "string", "maxLength": 64}}, `+
			`{"$ref": "#/components/parameters/top"}, `+
			`{"name": "select", "in": "query", "style": "form", "explode": false, "description": %[4]q, `+
			`"schema": {"type": "array", "uniqueItems": true, `+
			`"items": {"type": "string", "enum": ["id", "name", "size", "kind"]}}}], `+
			`"requestBody": {"required": true, "content": {"application/json": `+
			`{"schema": {"$ref": "#/components/schemas/s%[2]d"}}}}, `+
			`"responses": {"200": {"description": "d", "content": {"application/json": `+
			`{"schema": {"$ref": "#/components/schemas/s%[3]d"}}}}}, %[6]s}}`,
			i, i%m, (i*7)%m, strings.Repeat("Some words. ", 4), strings.Repeat("Some more words. ", 42),
			`"x-gateway-route": {"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", `+
				`"options": {"baseUrl": "https://example.com"}}, "policies": {"inbound": ["validate"]}}`)
	}
	b.WriteString(`}, "components": {"parameters": {"top": {"name": "top", "in": "query", "schema": {"type": "integer", ` +
		`"minimum": 0}}}, "schemas": {`)
	for i := range m {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"s%[1]d": {"title": "s%[1]d", "type": "object", "required": ["name"], "properties": {`+
			`"name": {"type": "string", "minLength": 1, "description": %[4]q}, `+
			`"size": {"type": "integer", "format": "int32", "nullable": true}, `+
			`"created": {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$", "readOnly": true}, `+
			`"parent": {"$ref": "#/components/schemas/s%[2]d"}, `+
			`"children": {"type": "array", "items": {"$ref": "#/components/schemas/s%[3]d"}}}}`,
			i, (i+1)%m, (i*3+1)%m, strings.Repeat("Some words. ", 10))
	}
	b.WriteString(`}}}`)
	return b.String()
}
