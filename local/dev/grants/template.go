package grants

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// document is the part of a CloudFormation template that this package reads.
type document struct {
	Resources map[string]struct {
		Type       string
		Properties json.RawMessage
	}
}

// policyProperties are the properties of an AWS::IAM::Policy.
type policyProperties struct {
	PolicyDocument struct {
		Statement []struct {
			Effect    string
			Action    any
			NotAction any
			Resource  any
			Condition any
		}
	}
	Roles []struct{ Ref string }
}

// functionProperties are the properties of an AWS::Lambda::Function.
type functionProperties struct {
	FunctionName string
	Role         struct {
		GetAtt []string `json:"Fn::GetAtt"`
	}
}

// ReadGrants reads the grants of the functions' roles from a folder of templates that the CDK has synthesized.
func ReadGrants(synthesized fs.FS) (GrantsByFunction, error) {
	out := make(GrantsByFunction)
	return out, eachPolicy(synthesized, func(function string, d document, p policyProperties) error {
		return d.allow(out, function, p)
	})
}

// eachPolicy calls visit with every policy of a function's role.
func eachPolicy(synthesized fs.FS, visit func(function string, d document, p policyProperties) error) error {
	files, err := fs.Glob(synthesized, "*.template.json")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find the synthesized templates: %w", errors.Join(err, fs.ErrNotExist))
	}
	found := false
	for _, file := range files {
		text, err := fs.ReadFile(synthesized, file)
		if err != nil {
			return fmt.Errorf("read a template: %w", err)
		}
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("decode %s: %w", file, err)
		}
		n, err := d.eachPolicy(visit)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		found = found || n > 0
	}
	if !found {
		return errors.New("the templates hold no function with a role")
	}
	return nil
}

// eachPolicy calls visit with the policies of the functions in the template, and returns the number of functions.
func (d document) eachPolicy(visit func(function string, d document, p policyProperties) error) (int, error) {
	functions := map[string]string{} // by role
	for id, r := range d.Resources {
		if r.Type != "AWS::Lambda::Function" {
			continue
		}
		var f functionProperties
		if err := json.Unmarshal(r.Properties, &f); err != nil {
			return 0, fmt.Errorf("reading the properties of function %s: %w", id, err)
		}
		if f.FunctionName == "" || len(f.Role.GetAtt) != 2 {
			return 0, fmt.Errorf("function %s has no name or no role that is a resource", id)
		}
		if other, ok := functions[f.Role.GetAtt[0]]; ok {
			return 0, fmt.Errorf("functions %s and %s share a role", other, f.FunctionName)
		}
		functions[f.Role.GetAtt[0]] = f.FunctionName
	}
	for id, r := range d.Resources {
		if r.Type != "AWS::IAM::Policy" {
			continue
		}
		var p policyProperties
		if err := json.Unmarshal(r.Properties, &p); err != nil {
			return 0, fmt.Errorf("policy %s: %w", id, err)
		}
		for _, role := range p.Roles {
			function, ok := functions[role.Ref]
			if !ok {
				continue
			}
			if err := visit(function, d, p); err != nil {
				return 0, fmt.Errorf("policy %s: %w", id, err)
			}
		}
	}
	return len(functions), nil
}

// allow adds the grants of a function's policy to out.
func (d document) allow(out GrantsByFunction, function string, p policyProperties) error {
	for _, s := range p.PolicyDocument.Statement {
		if s.Effect != "Allow" || s.NotAction != nil {
			return errors.New("a statement is no plain Allow: teach package grants what it means")
		}
		// A grant does not contain its condition, so the condition is only checked.
		if s.Condition != nil && !isRootKeyCondition(s.Condition, toList(s.Action)) {
			if _, err := parseLeadingKeys(s.Condition); err != nil {
				return err
			}
		}
		for _, action := range toList(s.Action) {
			name, ok := action.(string)
			if !ok || strings.Contains(name, "*") {
				return fmt.Errorf("the action %v is not the name of exactly one action", action)
			}
			for _, resource := range toList(s.Resource) {
				out.add(function, Grant{name, d.render(resource)})
			}
		}
	}
	return nil
}

// toList returns v if it is a list, and otherwise a list that contains only v.
func toList(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// render returns a statement's resource in the form of Grant.Resource. It returns an unknown string unchanged, so that
// "*" covers every resource, and any other unknown value as JSON, which matches no use.
func (d document) render(v any) string {
	switch v := v.(type) {
	case string:
		if strings.Contains(v, ":s3:::") {
			_, rest, _ := strings.Cut(v, ":s3:::")
			if _, path, ok := strings.Cut(rest, "/"); ok {
				return "bucket/" + path
			}
			return "bucket"
		}
		return v
	case map[string]any:
		if text, ok := v["Fn::Sub"].(string); ok {
			return d.render(text)
		}
		if attribute, ok := v["Fn::GetAtt"].([]any); ok && len(attribute) == 2 && attribute[1] == "Arn" {
			id, _ := attribute[0].(string)
			switch d.Resources[id].Type {
			case "AWS::DynamoDB::Table":
				return "table"
			case "AWS::KMS::Key":
				return "key"
			case "AWS::S3::Bucket":
				return "bucket"
			}
		}
		if join, ok := v["Fn::Join"].([]any); ok && len(join) == 2 && join[0] == "" {
			var out strings.Builder
			for _, part := range toList(join[1]) {
				out.WriteString(d.render(part))
			}
			return out.String()
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
