// Package apitools makes the tools of the management API's own MCP server from the API's OpenAPI document:
// each operation is one, and none is listed by hand. A tool has what clients are shown of it, what a server
// needs to call the operation, and which parts of its answers are secrets (Mask).
//
// What it is not: it speaks no MCP and calls nothing. What a project's MCP servers offer is made by package
// project, whose rules about arguments and schemas are those of this package too.
//
// Of the document, made.json holds what Make makes: a golden of the test of package functions, which derives the
// document too, so that what a review has seen is what is served.
//
// Read make.go first, then mask.go. The rules are those of specification 4.1.
package apitools

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/project"
)

// The arguments of a tool that are none of its operation's.
const (
	// DryRun is the argument of every tool that changes something: true asks what the call would change.
	DryRun = "dryRun"
	// RevealSecrets is the argument of every tool whose answer may hold a secret: true asks for it to be shown.
	RevealSecrets = "revealSecrets"
)

// Tool is one operation of the API, as a tool of an MCP server. Nobody changes one: all callers share it.
type Tool struct {
	// Name is the operation's id, of at most 64 characters, and unique. Title is its summary, and Description
	// that and more.
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	// Input is the JSON Schema of the arguments, which are those of Operation with DryRun and RevealSecrets
	// where they belong. Output is that of a good answer, nil where there is no body.
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output,omitempty"`

	// Method and Path are the operation's, the path with its parameters in braces, and Arguments says where
	// in a request each argument goes.
	Method    string             `json:"method"`
	Path      string             `json:"path"`
	Arguments []project.Argument `json:"arguments,omitempty"`
	// TakesBody says that the request has a body in JSON, BodyNeeded that it has one without arguments of the
	// body too.
	TakesBody  bool `json:"takesBody,omitempty"`
	BodyNeeded bool `json:"bodyNeeded,omitempty"`

	// Group is the title of the operation's group, by which tools are chosen together.
	Group string `json:"group"`
	// Public says that no key is needed, and Scope what a key has to be allowed, "" for any key.
	Public bool   `json:"public,omitempty"`
	Scope  string `json:"scope,omitempty"`

	// ReadOnly says that nothing is changed, Destructive that a call removes or replaces something, and
	// Idempotent that the same call again changes nothing more.
	ReadOnly    bool `json:"readOnly,omitempty"`
	Destructive bool `json:"destructive,omitempty"`
	Idempotent  bool `json:"idempotent,omitempty"`

	// Secrets says where an answer may hold secrets, and Given where the arguments do, nil for nowhere.
	Secrets *Secrets `json:"secrets,omitempty"`
	Given   *Secrets `json:"given,omitempty"`
}

// tried is the schema of what a dry run answers (api.DryRun).
const tried = `{"type":"object","description":"What a dry run answers.","properties":{"dryRun":{"const":true},"operation":{"type":"string"},"status":{"type":"integer"},` +
	`"before":{"description":"What is there, null for nothing."},"after":{"description":"What would be there, null for nothing."},` +
	`"removes":{"type":"object","description":"How many objects of each type would go.","additionalProperties":{"type":"integer"}},` +
	`"auditRecord":{"description":"The audit record that would be written.","type":["object","null"]}},"required":["dryRun","operation","status","before","after"]}`

//go:embed made.json
var made []byte

// Load returns the tools of the API, in the order of its OpenAPI document. It takes 3 ms of a core, so that it is
// for whoever has the first request that needs them, once.
func Load() ([]Tool, error) {
	var tools []Tool
	if err := json.Unmarshal(made, &tools); err != nil {
		return nil, fmt.Errorf("read the tools of the API: %w", err)
	}
	return tools, nil
}

// Named returns the tool of an operation, nil where the API has none of that name. made.json has one tool on each line, so that Named decodes
// one line.
func Named(name string) (*Tool, error) {
	begin := fmt.Appendf(nil, `{"name":%q,`, name)
	for line := range bytes.Lines(made) {
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

// Listed is the tool as clients are shown it.
func (t *Tool) Listed() *mcp.Tool {
	destructive, openWorld := t.Destructive, false // nothing but the installation is touched
	listed := &mcp.Tool{
		Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.Input,
		Annotations: &mcp.ToolAnnotations{
			Title: t.Title, ReadOnlyHint: t.ReadOnly, DestructiveHint: &destructive, IdempotentHint: t.Idempotent, OpenWorldHint: &openWorld,
		},
	}
	switch {
	case t.Output == nil: // an interface of no bytes is not nil
	case t.ReadOnly:
		listed.OutputSchema = t.Output
	default:
		listed.OutputSchema = json.RawMessage(`{"type":"object","anyOf":[` + string(t.Output) + "," + tried + "]}")
	}
	return listed
}

// Operation is what writes a request of the tool's arguments (mcp.Write), without those that are the tool's own.
func (t *Tool) Operation() *project.MCPOperation {
	o := &project.MCPOperation{Arguments: t.Arguments, BodyNeeded: t.BodyNeeded}
	if t.TakesBody {
		o.Body, o.ContentType = project.BodyJSON, "application/json"
	}
	return o
}
