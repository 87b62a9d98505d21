package apitools

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/effect"
	"github.com/gatewright/gatewright/shared/lazy"
	"github.com/gatewright/gatewright/shared/project"
)

// Make makes the tools of all operations of an OpenAPI document that package api has written, but of those
// that are no tools (Declaration.NoTool), in the document's order. Its error tells every operation of which
// no tool can be made, and why.
//
// It reads all of the document, which takes 30 ms of a core: what serves tools takes those of Load.
func Make(document []byte) ([]Tool, error) {
	offered, problems := project.Offers(document)
	var wrong []error
	for _, p := range problems {
		wrong = append(wrong, fmt.Errorf("make a tool of %s: %s", p.Path, p.Message))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	tools := make([]Tool, 0, len(offered))
	for _, o := range offered {
		t, err := makeTool(o)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("make a tool of %s %s: %w", o.Method, o.Path, err))
		}
		tools = append(tools, t)
	}
	if err := errors.Join(wrong...); err != nil {
		return nil, err
	}
	return tools, nil
}

func makeTool(o project.OfferedOperation) (Tool, error) {
	summary, _ := o.Declared["summary"].(string)
	more, _ := o.Declared["description"].(string)
	does, _ := o.Declared[effect.Extension].(string)
	scope, _ := o.Declared[effect.ScopeExtension].(string)
	security, stated := o.Declared["security"].([]any)
	t := Tool{
		Name: o.Name, Title: summary, Description: strings.TrimSpace(sentence(summary) + " " + more),
		Output: o.Output, Method: o.Method, Path: o.Path,
		TakesBody: o.Body != "", BodyNeeded: o.BodyNeeded,
		Group: tag(o.Declared), Public: stated && len(security) == 0, Scope: scope,
		ReadOnly:    effect.Effect(does) == effect.Reads,
		Destructive: effect.Effect(does) == effect.Replaces || effect.Effect(does) == effect.Removes,
		// RFC 9110, 9.2.2. Of others the caller decides, by the Idempotency-Key.
		Idempotent: slices.Contains([]string{http.MethodGet, http.MethodPut, http.MethodDelete}, o.Method),
	}
	if !slices.Contains(effect.All(), effect.Effect(does)) {
		return t, fmt.Errorf("the document has to say in %s what it does: one of %v", effect.Extension, effect.All())
	}
	if o.Body != "" && o.Body != project.BodyJSON {
		return t, errors.New("its body has to be JSON")
	}
	if o.Output == nil && answers(o.Declared) {
		return t, errors.New("its answer has to be an object: clients take no other as structured content")
	}
	var err error
	if t.Secrets, err = secretsOf(o.Output); err != nil {
		return t, err
	}
	if err = t.takeArguments(o); err != nil {
		return t, err
	}
	t.Given, err = secretsOf(t.Input)
	return t, err
}

// answers reports whether a good answer of an operation has a body.
func answers(declared map[string]any) bool {
	responses, _ := declared["responses"].(map[string]any)
	for status, response := range responses {
		good, _ := response.(map[string]any)
		if content, _ := good["content"].(map[string]any); status[0] == '2' && len(content) > 0 {
			return true
		}
	}
	return false
}

// sentence ends a text as one.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// tag is the first tag of an operation: the title of its group.
func tag(declared map[string]any) string {
	tags, _ := declared["tags"].([]any)
	if len(tags) == 0 {
		return ""
	}
	title, _ := tags[0].(string)
	return title
}

// ifNoneMatch is a header that no tool has: its answer 304 says nothing to who has no cache.
const ifNoneMatch = "If-None-Match"

// word is the beginning of a word of a header's name but for the first.
var word = lazy.Regexp(`-([A-Za-z])`)

// headerArgument is what the argument for a header is called: idempotencyKey for Idempotency-Key.
func headerArgument(header string) string {
	name := word().ReplaceAllStringFunc(header, func(s string) string { return strings.ToUpper(s[1:]) })
	return strings.ToLower(name[:1]) + name[1:]
}

// takeArguments takes over an operation's arguments, and adds those of the tool's own.
func (t *Tool) takeArguments(o project.OfferedOperation) error {
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required,omitempty"`
		More       json.RawMessage            `json:"additionalProperties"`
	}
	if err := json.Unmarshal(o.Input, &schema); err != nil {
		return fmt.Errorf("read the schema of its arguments: %w", err)
	}
	properties := map[string]json.RawMessage{}
	put := func(name string, schema json.RawMessage) error {
		if _, taken := properties[name]; taken {
			return fmt.Errorf("two of its arguments are called %s: rename the field or parameter", name)
		}
		properties[name] = schema
		return nil
	}
	for _, a := range o.Arguments {
		offered := a.Name
		if a.Place == project.InHeader {
			if a.Aim() == ifNoneMatch {
				continue
			}
			a.Name, a.Target = headerArgument(a.Aim()), a.Aim()
			if i := slices.Index(schema.Required, offered); i >= 0 {
				schema.Required[i] = a.Name
			}
		}
		if err := put(a.Name, schema.Properties[offered]); err != nil {
			return err
		}
		t.Arguments = append(t.Arguments, a)
	}
	for _, flag := range []struct {
		name, description string
		has               bool
	}{
		{DryRun, "true changes nothing, and answers what the call would change: what is there before and after, and the audit record.", !t.ReadOnly},
		{RevealSecrets, "true shows the secrets of the answer, such as keys and upload addresses, of which at most the last 8 characters are shown otherwise. An audit record says that they were shown.", t.Secrets != nil},
	} {
		if !flag.has {
			continue
		}
		text, err := json.Marshal(map[string]any{"type": "boolean", "default": false, "description": flag.description})
		if err != nil {
			return fmt.Errorf("describe %s: %w", flag.name, err)
		}
		if err := put(flag.name, text); err != nil {
			return err
		}
	}
	schema.Properties = properties
	var err error
	if t.Input, err = json.Marshal(schema); err != nil {
		return fmt.Errorf("write the schema of its arguments: %w", err)
	}
	return nil
}
