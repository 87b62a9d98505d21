package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// creationOrder is an installation with the creation order of its resources in CloudFormation. The address of a
// resource consists of the file of its stack, a space, and its logical id.
type creationOrder struct {
	assembly
	// stackResource has the address of each nested stack's resource in its parent stack, by the nested stack's file.
	stackResource map[string]string
	// dependencies has the addresses of the resources that a resource needs directly, by its address. They are created
	// before it.
	dependencies map[string][]string
}

// newCreationOrder returns the creation order of an installation. It parses the templates again, so that a rule can
// violate them.
func newCreationOrder(t *testing.T, a assembly) creationOrder {
	t.Helper()
	c := creationOrder{
		assembly: assembly{stacks: map[string]template{}}, stackResource: map[string]string{},
		dependencies: map[string][]string{},
	}
	for file, raw := range a.raw {
		var tmpl template
		if err := json.Unmarshal(raw, &tmpl); err != nil {
			t.Fatal(err)
		}
		c.stacks[file] = tmpl
	}
	c.inline()
	c.resolveDependencies()
	return c
}

// resolveDependencies determines which resources each resource needs.
func (c creationOrder) resolveDependencies() {
	clear(c.dependencies)
	for address, r := range c.allResources() {
		if file, ok := r.Metadata["aws:asset:path"].(string); ok && r.Type == "AWS::CloudFormation::Stack" {
			c.stackResource[file] = address
		}
		references := append(referencesIn(r.Properties), r.DependsOn...)
		for _, name := range references {
			if _, ok := c.stacks[fileOf(address)].Resources[name]; ok {
				c.dependencies[address] = append(c.dependencies[address], fileOf(address)+" "+name)
			}
		}
	}
	for address := range c.allResources() {
		if parent := c.stackResource[fileOf(address)]; parent != "" { // it also needs what its nested stack needs
			c.dependencies[address] = append(c.dependencies[address], c.dependencies[parent]...)
		}
	}
}

// createdBefore returns the addresses of the resources that are created before another resource. If a nested stack is
// created before it, all resources of that stack are.
func (c creationOrder) createdBefore(address string) map[string]bool {
	out := map[string]bool{}
	var visit func(address string)
	visit = func(address string) {
		for _, next := range c.dependencies[address] {
			if out[next] {
				continue
			}
			out[next] = true
			visit(next)
			for file, nested := range c.stackResource {
				if nested == next {
					for id := range c.stacks[file].Resources {
						out[file+" "+id] = true
					}
				}
			}
		}
	}
	visit(address)
	return out
}

// allResources returns all resources by their addresses.
func (c creationOrder) allResources() map[string]resource {
	out := map[string]resource{}
	for file, s := range c.stacks {
		for id, r := range s.Resources {
			out[file+" "+id] = r
		}
	}
	return out
}

// all returns the resources of a type by their addresses.
func (c creationOrder) all(kind string) map[string]resource {
	out := c.allResources()
	maps.DeleteFunc(out, func(_ string, r resource) bool { return r.Type != kind })
	return out
}

func fileOf(address string) string { file, _, _ := strings.Cut(address, " "); return file }

func idOf(address string) string { _, id, _ := strings.Cut(address, " "); return id }

// resource returns the resource with this address, or a resource without a type if there is none.
func (c creationOrder) resource(address string) resource {
	return c.stacks[fileOf(address)].Resources[idOf(address)]
}

// resolve returns the address of the first resource to which a reference in the stack of address refers, or "" if it
// refers to none.
func (c creationOrder) resolve(address string, reference any) string {
	for _, name := range referencesIn(reference) {
		return fileOf(address) + " " + name
	}
	return ""
}

// policiesOf returns the addresses of the policies of a role.
func (c creationOrder) policiesOf(role string) (out []string) {
	for address, r := range c.all("AWS::IAM::Policy") {
		roles, _ := r.Properties["Roles"].([]any)
		if slices.ContainsFunc(roles, func(reference any) bool { return c.resolve(address, reference) == role }) {
			out = append(out, address)
		}
	}
	return out
}

// missingBefore returns those of the resources in dependencies that are not created before another resource. Without
// dependencies, it returns the text "a policy", because every caller expects a policy.
func (c creationOrder) missingBefore(address string, dependencies []string) []string {
	before := c.createdBefore(address)
	if len(dependencies) == 0 {
		return []string{"a policy"}
	}
	return slices.DeleteFunc(dependencies, func(address string) bool { return before[address] })
}

// withoutPolicies returns the resources of a type that are not created after the policies of their role. property is
// the property with the role.
func (c creationOrder) withoutPolicies(kind, property string) (violations []string, checked int) {
	for address, r := range c.all(kind) {
		checked++
		if len(c.missingBefore(address, c.policiesOf(c.resolve(address, r.Properties[property])))) > 0 {
			violations = append(violations, address)
		}
	}
	return violations, checked
}

// callersWithoutPolicies checks the resources of a type whose properties satisfy matches. It returns the resources that
// are not created after a function and the policies of that function's role.
func (c creationOrder) callersWithoutPolicies(
	kind string, matches func(map[string]any) bool,
) (violations []string, checked int) {
	for address, r := range c.all(kind) {
		if !matches(r.Properties) {
			continue
		}
		checked++
		policies := []string{}
		for dependency := range c.createdBefore(address) {
			if f := c.resource(dependency); f.Type == "AWS::Lambda::Function" {
				policies = append(policies, c.policiesOf(c.resolve(dependency, f.Properties["Role"]))...)
			}
		}
		if len(c.missingBefore(address, policies)) > 0 {
			violations = append(violations, address)
		}
	}
	return violations, checked
}

// removeDependencies removes the declared dependencies (DependsOn) of resources of one type on resources of another
// type.
func (c creationOrder) removeDependencies(kind, dependencyType string) {
	for file, s := range c.stacks {
		for id, r := range s.Resources {
			if r.Type == kind {
				r.DependsOn = slices.DeleteFunc(r.DependsOn, func(id string) bool { return s.Resources[id].Type == dependencyType })
				c.stacks[file].Resources[id] = r
			}
		}
	}
}

// statements returns the statements of all policies, by the address of the policy and the index of the statement.
func (c creationOrder) statements() map[string]map[string]any {
	out := map[string]map[string]any{}
	for address, r := range c.all("AWS::IAM::Policy") {
		statements, _ := get(r.Properties, "PolicyDocument", "Statement").([]any)
		for i, s := range statements {
			out[fmt.Sprintf("%s, statement %d", address, i)], _ = s.(map[string]any)
		}
	}
	return out
}
