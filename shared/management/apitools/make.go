package apitools

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/base/lazy"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/openapiext"
)

// Make returns the tools of all operations in an OpenAPI document of package api, in the document's order. It leaves
// out operations with Declaration.NoTool. Its error lists operations that cannot become tools, and why.
//
// It reads the whole document, which takes 30 ms of CPU time: servers use Load instead.
func Make(document []byte) ([]Tool, error) {
	operations, problems := project.OfferedOperations(document)
	var errs []error
	for _, p := range problems {
		errs = append(errs, fmt.Errorf("make a tool of %s: %s", p.Path, p.Message))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	tools := make([]Tool, 0, len(operations))
	for _, o := range operations {
		t, err := makeTool(o)
		if err != nil {
			errs = append(errs, fmt.Errorf("make a tool of %s %s: %w", o.Method, o.Path, err))
		}
		tools = append(tools, t)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return tools, nil
}

func makeTool(o project.OfferedOperation) (Tool, error) {
	summary, _ := o.Declared["summary"].(string)
	description, _ := o.Declared["description"].(string)
	effectName, _ := o.Declared[openapiext.EffectExtension].(string)
	scope, _ := o.Declared[openapiext.ScopeExtension].(string)
	security, hasSecurity := o.Declared["security"].([]any)
	t := Tool{
		Name: o.Name, Title: summary, Description: strings.TrimSpace(sentence(summary) + " " + description),
		Output: o.Output, Method: o.Method, Path: o.Path,
		TakesBody: o.Body != "", BodyRequired: o.BodyRequired,
		Group: tag(o.Declared), Public: hasSecurity && len(security) == 0, Scope: scope,
		ReadOnly: openapiext.Effect(effectName) == openapiext.Reads,
		Destructive: openapiext.Effect(effectName) == openapiext.Replaces ||
			openapiext.Effect(effectName) == openapiext.Removes,
		// RFC 9110, 9.2.2. Calls with other methods are idempotent if the caller sends an Idempotency-Key.
		Idempotent: slices.Contains([]string{http.MethodGet, http.MethodPut, http.MethodDelete}, o.Method),
	}
	if !slices.Contains(openapiext.All(), openapiext.Effect(effectName)) {
		return t, fmt.Errorf("the document has to say in %s what it does: one of %v", openapiext.EffectExtension,
			openapiext.All())
	}
	if o.Body != "" && o.Body != project.BodyJSON {
		return t, errors.New("its body has to be JSON")
	}
	if o.Output == nil && hasResponseBody(o.Declared) {
		return t, errors.New("its answer has to be an object: clients take no other as structured content")
	}
	var err error
	if t.Secrets, err = newSecrets(o.Output); err != nil {
		return t, err
	}
	if err = t.setArguments(o); err != nil {
		return t, err
	}
	t.ArgumentSecrets, err = newSecrets(t.Input)
	return t, err
}

// hasResponseBody reports whether a successful response of an operation has a body.
func hasResponseBody(declared map[string]any) bool {
	responses, _ := declared["responses"].(map[string]any)
	for status, response := range responses {
		object, _ := response.(map[string]any)
		if content, _ := object["content"].(map[string]any); status[0] == '2' && len(content) > 0 {
			return true
		}
	}
	return false
}

// sentence returns a text with a period at its end.
func sentence(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return text
	}
	return text + "."
}

// tag returns the first tag of an operation: the title of its group.
func tag(declared map[string]any) string {
	tags, _ := declared["tags"].([]any)
	if len(tags) == 0 {
		return ""
	}
	title, _ := tags[0].(string)
	return title
}

// ifNoneMatch is a header that is not an argument of tools: a 304 is useless to clients without a cache.
const ifNoneMatch = "If-None-Match"

// wordStart matches the hyphen and first letter of each word of a header's name, except the first word.
var wordStart = lazy.Regexp(`-([A-Za-z])`)

// headerArgument returns the name of the argument for a header: idempotencyKey for Idempotency-Key.
func headerArgument(header string) string {
	name := wordStart().ReplaceAllStringFunc(header, func(s string) string { return strings.ToUpper(s[1:]) })
	return strings.ToLower(name[:1]) + name[1:]
}

// setArguments sets the tool's arguments: those of the operation, and DryRunArgument and RevealSecretsArgument if they
// apply.
func (t *Tool) setArguments(o project.OfferedOperation) error {
	var schema struct {
		Type                 string                     `json:"type"`
		Properties           map[string]json.RawMessage `json:"properties"`
		Required             []string                   `json:"required,omitempty"`
		AdditionalProperties json.RawMessage            `json:"additionalProperties"`
	}
	if err := json.Unmarshal(o.Input, &schema); err != nil {
		return fmt.Errorf("read the schema of its arguments: %w", err)
	}
	properties := map[string]json.RawMessage{}
	add := func(name string, schema json.RawMessage) error {
		if _, exists := properties[name]; exists {
			return fmt.Errorf("two of its arguments are called %s: rename the field or parameter", name)
		}
		properties[name] = schema
		return nil
	}
	for _, a := range o.Arguments {
		original := a.Name
		if a.Location == project.InHeader {
			if a.TargetName() == ifNoneMatch {
				continue
			}
			a.Name, a.Target = headerArgument(a.TargetName()), a.TargetName()
			if i := slices.Index(schema.Required, original); i >= 0 {
				schema.Required[i] = a.Name
			}
		}
		if err := add(a.Name, schema.Properties[original]); err != nil {
			return err
		}
		t.Arguments = append(t.Arguments, a)
	}
	for _, flag := range []struct {
		name, description string
		applies           bool
	}{
		{
			DryRunArgument, "true changes nothing, and answers what the call would change: what is there before and after, " +
				"and the audit record.", !t.ReadOnly,
		},
		{
			RevealSecretsArgument, "true shows the secrets of the answer, such as keys and upload addresses, of which at most " +
				"the last 8 characters are shown otherwise. An audit record says that they were shown.", t.Secrets != nil,
		},
	} {
		if !flag.applies {
			continue
		}
		text, err := json.Marshal(map[string]any{"type": "boolean", "default": false, "description": flag.description})
		if err != nil {
			return fmt.Errorf("describe %s: %w", flag.name, err)
		}
		if err := add(flag.name, text); err != nil {
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
