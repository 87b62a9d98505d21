package grants

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// document is what is read of a CloudFormation template.
type document struct {
	Resources map[string]struct {
		Type       string
		Properties json.RawMessage
	}
}

// policyProperties are those of an AWS::IAM::Policy.
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

// functionProperties are those of an AWS::Lambda::Function.
type functionProperties struct {
	FunctionName string
	Role         struct {
		GetAtt []string `json:"Fn::GetAtt"`
	}
}

// Granted reads what the functions' roles allow out of the templates that the
// CDK has synthesised into a folder.
func Granted(synthesised fs.FS) (Functions, error) {
	out := make(Functions)
	return out, eachPolicy(synthesised, func(function string, d document, p policyProperties) error {
		return d.allow(out, function, p)
	})
}

// eachPolicy calls each with every policy of a function's role.
func eachPolicy(synthesised fs.FS, each func(function string, d document, p policyProperties) error) error {
	files, err := fs.Glob(synthesised, "*.template.json")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find the synthesised templates: %w", errors.Join(err, fs.ErrNotExist))
	}
	found := false
	for _, file := range files {
		text, err := fs.ReadFile(synthesised, file)
		if err != nil {
			return fmt.Errorf("read a template: %w", err)
		}
		var d document
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("decode %s: %w", file, err)
		}
		n, err := d.read(each)
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

// read calls each with the policies of functions, and gives how many functions there are.
func (d document) read(each func(function string, d document, p policyProperties) error) (int, error) {
	functions := map[string]string{} // by role
	for id, r := range d.Resources {
		if r.Type != "AWS::Lambda::Function" {
			continue
		}
		var f functionProperties
		if err := json.Unmarshal(r.Properties, &f); err != nil || f.FunctionName == "" || len(f.Role.GetAtt) != 2 {
			return 0, fmt.Errorf("function %s has no name or no role that is a resource: %w", id, err)
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
			if err := each(function, d, p); err != nil {
				return 0, fmt.Errorf("policy %s: %w", id, err)
			}
		}
	}
	return len(functions), nil
}

// allow adds the statements of a function's policy.
func (d document) allow(out Functions, function string, p policyProperties) error {
	for _, s := range p.PolicyDocument.Statement {
		if s.Effect != "Allow" || s.NotAction != nil {
			return errors.New("a statement is no plain Allow: teach package grants what it means")
		}
		if s.Condition != nil && !ofTheRootKey(s.Condition, list(s.Action)) { // which Fenced compares
			if _, err := leading(s.Condition); err != nil {
				return err
			}
		}
		for _, action := range list(s.Action) {
			name, ok := action.(string)
			if !ok || strings.Contains(name, "*") {
				return fmt.Errorf("the action %v is not the name of one", action)
			}
			for _, resource := range list(s.Resource) {
				out.add(function, Grant{name, d.render(resource)})
			}
		}
	}
	return nil
}

// list takes a value for a list of one.
func list(v any) []any {
	if l, ok := v.([]any); ok {
		return l
	}
	return []any{v}
}

// render names a resource of a statement. What it does not know it spells as it
// stands in the template, which no use is called.
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
			for _, part := range list(join[1]) {
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
