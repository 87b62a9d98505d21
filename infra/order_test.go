package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// creation is an installation with the order in which CloudFormation makes its resources. A resource is named by the file of its stack and its
// logical id.
type creation struct {
	assembly
	// stackAt is the resource of a nested stack in its parent, by the stack's file.
	stackAt map[string]string
	// needs are the resources that are there before a resource, by its name: those that it names itself.
	needs map[string][]string
}

func newCreation(t *testing.T, a assembly) creation {
	t.Helper()
	c := creation{assembly: assembly{stacks: map[string]template{}}, stackAt: map[string]string{}, needs: map[string][]string{}}
	for file, raw := range a.raw {
		var one template
		if err := json.Unmarshal(raw, &one); err != nil {
			t.Fatal(err)
		}
		c.stacks[file] = one
	}
	c.inline()
	c.order()
	return c
}

// order finds out which resources each resource needs.
func (c creation) order() {
	clear(c.needs)
	for at, r := range c.each() {
		if file, ok := r.Metadata["aws:asset:path"].(string); ok && r.Type == "AWS::CloudFormation::Stack" {
			c.stackAt[file] = at
		}
		named := append(namesIn(r.Properties), r.DependsOn...)
		for _, name := range named {
			if _, ok := c.stacks[fileOf(at)].Resources[name]; ok {
				c.needs[at] = append(c.needs[at], fileOf(at)+" "+name)
			}
		}
	}
	for at := range c.each() {
		if of := c.stackAt[fileOf(at)]; of != "" { // what its stack needs is there first
			c.needs[at] = append(c.needs[at], c.needs[of]...)
		}
	}
}

// before returns the resources that exist before another one. A nested stack that exists has all of its resources.
func (c creation) before(at string) map[string]bool {
	out := map[string]bool{}
	var visit func(at string)
	visit = func(at string) {
		for _, next := range c.needs[at] {
			if out[next] {
				continue
			}
			out[next] = true
			visit(next)
			for file, of := range c.stackAt {
				if of == next {
					for id := range c.stacks[file].Resources {
						out[file+" "+id] = true
					}
				}
			}
		}
	}
	visit(at)
	return out
}

// each returns all resources by their names.
func (c creation) each() map[string]resource {
	out := map[string]resource{}
	for file, s := range c.stacks {
		for id, r := range s.Resources {
			out[file+" "+id] = r
		}
	}
	return out
}

// all returns the resources of a type by their names.
func (c creation) all(kind string) map[string]resource {
	out := c.each()
	maps.DeleteFunc(out, func(_ string, r resource) bool { return r.Type != kind })
	return out
}

func fileOf(at string) string { file, _, _ := strings.Cut(at, " "); return file }

func idOf(at string) string { _, id, _ := strings.Cut(at, " "); return id }

func (c creation) resource(at string) resource { return c.stacks[fileOf(at)].Resources[idOf(at)] }

// named returns the name of the resource that a reference leads to, which is in the same stack.
func (c creation) named(at string, reference any) string {
	for _, name := range namesIn(reference) {
		return fileOf(at) + " " + name
	}
	return ""
}

// policiesOf returns the policies of a role.
func (c creation) policiesOf(role string) (out []string) {
	for at, r := range c.all("AWS::IAM::Policy") {
		roles, _ := r.Properties["Roles"].([]any)
		if slices.ContainsFunc(roles, func(of any) bool { return c.named(at, of) == role }) {
			out = append(out, at)
		}
	}
	return out
}

// missing returns those of the resources in first that do not exist before another one.
func (c creation) missing(at string, first []string) []string {
	before := c.before(at)
	if len(first) == 0 {
		return []string{"a policy"}
	}
	return slices.DeleteFunc(first, func(at string) bool { return before[at] })
}

// withoutPolicies returns the resources of a type that do not wait for the policies of the role that a property names.
func (c creation) withoutPolicies(kind, property string) (broken []string, looked int) {
	for at, r := range c.all(kind) {
		looked++
		if len(c.missing(at, c.policiesOf(c.named(at, r.Properties[property])))) > 0 {
			broken = append(broken, at)
		}
	}
	return broken, looked
}

// calledWithoutPolicies returns the resources of a type that name a function and do not wait for the policies of its role.
func (c creation) calledWithoutPolicies(kind string, about func(map[string]any) bool) (broken []string, looked int) {
	for at, r := range c.all(kind) {
		if !about(r.Properties) {
			continue
		}
		looked++
		policies := []string{}
		for first := range c.before(at) {
			if f := c.resource(first); f.Type == "AWS::Lambda::Function" {
				policies = append(policies, c.policiesOf(c.named(first, f.Properties["Role"]))...)
			}
		}
		if len(c.missing(at, policies)) > 0 {
			broken = append(broken, at)
		}
	}
	return broken, looked
}

// forget removes the dependencies of the resources of one type on those of another.
func (c creation) forget(kind, first string) {
	for file, s := range c.stacks {
		for id, r := range s.Resources {
			if r.Type == kind {
				r.DependsOn = slices.DeleteFunc(r.DependsOn, func(id string) bool { return s.Resources[id].Type == first })
				c.stacks[file].Resources[id] = r
			}
		}
	}
}

// statements returns the statements of all policies.
func (c creation) statements() map[string]map[string]any {
	out := map[string]map[string]any{}
	for at, r := range c.all("AWS::IAM::Policy") {
		list, _ := get(r.Properties, "PolicyDocument", "Statement").([]any)
		for i, s := range list {
			out[fmt.Sprintf("%s, statement %d", at, i)], _ = s.(map[string]any)
		}
	}
	return out
}
