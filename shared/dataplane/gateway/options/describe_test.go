package options

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// inner and described are options of every kind.
type inner struct {
	Depth int64 `json:"depth" required:"true" minimum:"1"`
}

type described struct {
	Name    string                     `json:"name" required:"true"`
	Mode    string                     `json:"mode" enum:"log,reject"`
	Rate    float64                    `json:"rate" minimum:"0" maximum:"1"`
	Enabled bool                       `json:"enabled"`
	Names   []string                   `json:"names" enum:"a,b"`
	Max     *int64                     `json:"max" minimum:"1"`
	Inner   *inner                     `json:"inner"`
	Rules   []inner                    `json:"rules"`
	Raw     json.RawMessage            `json:"raw"`
	Map     map[string]json.RawMessage `json:"map"`
}

// TestOptionsAreDescribed checks the declarations of options of every kind.
func TestOptionsAreDescribed(t *testing.T) {
	got := Describe(described{Mode: "log", Rate: 0.5, Names: []string{"a"}},
		map[string]string{"name": "The name.", "inner.depth": "The depth.", "rules.depth": "Its depth."})
	want := []Option{
		{Name: "name", Type: "string", Required: true, Description: "The name."},
		{Name: "mode", Type: "string", Default: `"log"`, Enum: []string{"log", "reject"}},
		{Name: "rate", Type: "number", Default: "0.5", Minimum: "0", Maximum: "1"},
		{Name: "enabled", Type: "boolean", Default: "false"},
		{
			Name: "names", Type: "array", Default: `["a"]`, Enum: []string{"a", "b"},
			Item: &Option{Type: "string", Enum: []string{"a", "b"}},
		},
		{Name: "max", Type: "integer", Minimum: "1"},
		{Name: "inner", Type: "object", Options: []Option{
			{Name: "depth", Type: "integer", Required: true, Minimum: "1", Description: "The depth."},
		}},
		{Name: "rules", Type: "array", Item: &Option{Type: "object", Options: []Option{
			{Name: "depth", Type: "integer", Required: true, Minimum: "1", Description: "Its depth."},
		}}},
		{Name: "raw"},
		{Name: "map", Type: "object"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Describe() (-want +got):\n%s", diff)
	}
}

// TestSchemaOfOptions checks the JSON Schema for editors.
func TestSchemaOfOptions(t *testing.T) {
	text, err := json.Marshal(Schema(Describe(struct {
		Limit int64    `json:"limit" required:"true" minimum:"1"`
		Mode  string   `json:"mode" enum:"log,reject"`
		Names []string `json:"names"`
		Inner *inner   `json:"inner"`
	}{Mode: "log"}, map[string]string{"limit": "The limit."})))
	const variableText = `{"pattern":"\\$env\\(","type":"string"}`
	want := `{"additionalProperties":false,"properties":{` +
		`"inner":{"additionalProperties":false,"properties":{"depth":{"anyOf":[{"minimum":1,"type":"integer"},` +
		variableText + `]}},"required":["depth"],"type":"object"},` +
		`"limit":{"anyOf":[{"minimum":1,"type":"integer"},` + variableText + `],"description":"The limit."},` +
		`"mode":{"anyOf":[{"enum":["log","reject"]},` + variableText + `],"default":"log"},` +
		`"names":{"items":{"type":"string"},"type":"array"}},"required":["limit"],"type":"object"}`
	if err != nil || string(text) != want {
		t.Errorf("Schema() = %s, %v, want\n%s", text, err, want)
	}
}
