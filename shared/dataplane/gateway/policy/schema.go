package policy

import (
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Schema returns the JSON Schema of config/policies.json for editors, with the options of each type. An editor can
// complete the types and their options with it, and show their descriptions.
func Schema() map[string]any {
	out := project.PoliciesSchema()
	properties, _ := out["properties"].(map[string]any)
	policies, _ := properties["policies"].(map[string]any)
	item, _ := policies["items"].(map[string]any)
	members, _ := item["properties"].(map[string]any)
	definitions, _ := out["$defs"].(map[string]any)
	var types, conditions []any
	for _, d := range Declarations() {
		types = append(types, map[string]any{"const": d.Type, "description": d.Summary})
		definitions[d.Type] = options.Schema(d.Options)
		schema := map[string]any{"$ref": "#/$defs/" + d.Type}
		handler := map[string]any{"module": map[string]any{"const": d.Module}, "options": schema}
		conditions = append(conditions, map[string]any{
			"if": map[string]any{"properties": map[string]any{"policyType": map[string]any{"const": d.Type}}},
			"then": map[string]any{"properties": map[string]any{
				"options": schema, "handler": map[string]any{"properties": handler},
			}},
		})
	}
	members["policyType"] = map[string]any{"type": "string", "oneOf": types}
	item["allOf"] = conditions
	return out
}
