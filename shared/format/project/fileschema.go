package project

import (
	"bytes"
	"fmt"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// PoliciesSchema returns the JSON Schema of config/policies.json, without the options of policies: a Catalog knows
// these. Each call returns a new tree.
func PoliciesSchema() map[string]any {
	out := embeddedSchema("policies.json")
	properties, _ := out["properties"].(map[string]any)
	list, _ := properties["corsPolicies"].(map[string]any)
	cors := embeddedSchema("cors.json")
	out["$defs"] = cors["$defs"]
	delete(cors, "$defs")
	delete(cors, "$schema")
	list["items"] = cors
	return out
}

// SettingsSchema returns the JSON Schema of gatewright.jsonc.
func SettingsSchema() map[string]any { return embeddedSchema("settings.json") }

// RouteSchema returns the JSON Schema of x-gateway-route, without the options of handlers.
func RouteSchema() map[string]any { return embeddedSchema("route.json") }

// embeddedSchema reads a schema of the folder schemas. It panics if it cannot: the schemas are a part of the program.
func embeddedSchema(name string) map[string]any {
	data, err := schemaFiles.ReadFile("schemas/" + name)
	if err != nil {
		panic(fmt.Sprintf("project: %v", err))
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		panic(fmt.Sprintf("project: %s: %v", name, err))
	}
	out, _ := tree.(map[string]any)
	return out
}
