// Package apitools creates the tools of the management API's own MCP server from the API's OpenAPI document. Each
// operation becomes a tool, except operations with Declaration.NoTool. No tool is listed by hand. A tool has the data
// that clients see, the data that a server needs to call the operation, and the positions of secrets in its results
// (Mask).
//
// The package does not implement MCP and calls no operations. It uses package project, which
// creates the tools of a project's MCP servers, so the same rules apply to arguments and schemas.
//
// made.json contains the result of Make. It is a golden file of a test of package functions,
// which also creates the document. The served tools are therefore the tools that were reviewed.
//
// Read make.go first, then mask.go. The rules are those of specification 4.1.
package apitools

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/format/project"
)

// The arguments that tools have in addition to those of their operations.
const (
	// DryRunArgument is the name of an argument of every tool that changes something.
	// If the argument is true, the call shows the changes without making them.
	DryRunArgument = "dryRun"
	// RevealSecretsArgument is the name of an argument of every tool whose result can
	// contain a secret. If the argument is true, the result shows its secrets.
	RevealSecretsArgument = "revealSecrets"
)

// Tool is one operation of the API, as a tool of an MCP server. All callers share it, and must not change it.
type Tool struct {
	// Name is the operation's id, at most 64 characters long and unique. Title is the operation's summary. Description
	// begins with the summary and continues with the operation's description.
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments: the arguments of the operation, and DryRunArgument and
	// RevealSecretsArgument if they apply. Output is the JSON Schema of a successful result, or nil if the response has no
	// body.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output,omitempty"`

	// Method and Path are those of the operation, with the path's parameters in braces. Arguments are the places of
	// the arguments in a request.
	Method    string             `json:"method"`
	Path      string             `json:"path"`
	Arguments []project.Argument `json:"arguments,omitempty"`
	// TakesBody is true if the operation takes a JSON body. BodyRequired is true if a
	// request has a body even if the call has no argument that belongs to the body.
	TakesBody    bool `json:"takesBody,omitempty"`
	BodyRequired bool `json:"bodyNeeded,omitempty"`

	// Group is the title of the operation's group. Tools can be selected by group.
	Group string `json:"group"`
	// Public is true if the tool needs no key. Scope is the scope that the key needs, or "" if any key is accepted.
	Public bool   `json:"public,omitempty"`
	Scope  string `json:"scope,omitempty"`

	// ReadOnly is true if the tool changes nothing. Destructive is true if a call deletes
	// or replaces something. Idempotent is true if a repeated call has no further effect.
	ReadOnly    bool `json:"readOnly,omitempty"`
	Destructive bool `json:"destructive,omitempty"`
	Idempotent  bool `json:"idempotent,omitempty"`

	// Secrets are the positions of secrets in the result. ArgumentSecrets are the
	// positions of secrets in the arguments. Both are nil if there are no secrets.
	Secrets         *Secrets `json:"secrets,omitempty"`
	ArgumentSecrets *Secrets `json:"given,omitempty"`
}

// dryRunSchema is the schema of the result of a dry run (api.DryRunResult).
const dryRunSchema = `{"type":"object","description":"What a dry run answers.","properties":{` +
	`"dryRun":{"const":true},"operation":{"type":"string"},"status":{"type":"integer"},` +
	`"before":{"description":"What is there, null for nothing."},` +
	`"after":{"description":"What would be there, null for nothing."},` +
	`"removes":{"type":"object","description":"How many objects of each type would go.",` +
	`"additionalProperties":{"type":"integer"}},` +
	`"auditRecord":{"description":"The audit record that would be written.","type":["object","null"]}},` +
	`"required":["dryRun","operation","status","before","after"]}`

//go:embed made.json
var toolsJSON []byte

// Load returns the tools of the API, in the order of its OpenAPI document. It takes 3 ms of CPU time, so call it
// once, at the first request that needs the tools.
func Load() ([]Tool, error) {
	var tools []Tool
	if err := json.Unmarshal(toolsJSON, &tools); err != nil {
		return nil, fmt.Errorf("read the tools of the API: %w", err)
	}
	return tools, nil
}

// ByName returns the tool with a name, or nil if there is none. made.json has one tool per line, so ByName decodes only
// one line.
func ByName(name string) (*Tool, error) {
	begin := fmt.Appendf(nil, `{"name":%q,`, name)
	for line := range bytes.Lines(toolsJSON) {
		if !bytes.HasPrefix(line, begin) {
			continue
		}
		t := new(Tool)
		if err := json.Unmarshal(bytes.TrimRight(line, ",\n"), t); err != nil {
			return nil, fmt.Errorf("read the tool %s: %w", name, err)
		}
		return t, nil
	}
	return nil, nil
}

// MCPTool returns the tool as MCP clients see it.
func (t *Tool) MCPTool() *mcp.Tool {
	destructive, openWorld := t.Destructive, false // tools affect nothing outside the installation
	listed := &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Input,
		Annotations: &mcp.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &destructive, IdempotentHint: t.Idempotent,
			OpenWorldHint: &openWorld,
		},
	}
	switch {
	case t.Output == nil: // leave OutputSchema nil: an interface with a nil RawMessage would not be nil
	case t.ReadOnly:
		listed.OutputSchema = t.Output
	default:
		listed.OutputSchema = json.RawMessage(`{"type":"object","anyOf":[` + string(t.Output) + "," + dryRunSchema + "]}")
	}
	return listed
}

// Operation returns the operation with which mcp.EncodeArguments writes the
// tool's arguments into a request. It does not have DryRunArgument and RevealSecretsArgument.
func (t *Tool) Operation() *project.MCPOperation {
	o := &project.MCPOperation{Arguments: t.Arguments, BodyRequired: t.BodyRequired}
	if t.TakesBody {
		o.Body, o.ContentType = project.BodyJSON, "application/json"
	}
	return o
}
