package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/format/project"
)

// TestPathParametersCanBeJSON checks that a parameter of the path that the document describes as JSON is sent as JSON.
func TestPathParametersCanBeJSON(t *testing.T) {
	o := &project.MCPOperation{Arguments: []project.Argument{
		{Name: "id", Location: project.InPath, Style: project.StyleJSON, Required: true},
		{Name: "plain", Location: project.InPath, Style: project.StyleSimple, Required: true},
	}}
	got, err := mcp.EncodeArguments(o, "/a/{id}/{plain}", map[string]json.RawMessage{
		"id": json.RawMessage(`"x"`), "plain": json.RawMessage(`"y"`),
	})
	if want := "/a/%22x%22/y"; err != nil || got.Path != want {
		t.Errorf("EncodeArguments() path = %s, %v, want %s", got.Path, err, want)
	}
}
