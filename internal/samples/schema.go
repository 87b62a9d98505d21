package samples

import (
	"errors"
	"fmt"
	"slices"
)

// generator generates one value.
type generator struct {
	d *Document
	// choice selects among alternatives, such as those of oneOf.
	choice int
	// isFull is set to add optional properties and items.
	isFull bool
	// salt makes the items of a list differ.
	salt int
}

// rule is a schema object whose allOf, anyOf, oneOf and references are ignored: flatten has made rules of them.
type rule struct {
	place

	object map[string]any
}

var errNoValue = errors.New("the schema allows no value")

// flatten adds the rules of a schema and of its parts. It chooses one of several alternatives.
func (g *generator) flatten(rules []rule, p place, depth int) ([]rule, error) {
	if depth > 2*maxReferences {
		return nil, fmt.Errorf("%s: schemas refer to each other endlessly", p.at)
	}
	if p.value == true || p.value == nil {
		return rules, nil
	}
	object, isObject := p.value.(map[string]any)
	if !isObject {
		return nil, errNoValue
	}
	if reference := p.text("$ref"); reference != "" {
		target, found := g.d.find(reference)
		if !found {
			return nil, fmt.Errorf("%s: the reference leads to no place of the document", p.at)
		}
		var err error
		if rules, err = g.flatten(rules, target, depth+1); err != nil || g.d.isOpenAPI30 {
			return rules, err
		}
	}
	rules = append(rules, rule{p, object})
	all := p.member("allOf")
	list, _ := all.value.([]any)
	for i := range list {
		var err error
		if rules, err = g.flatten(rules, all.item(i), depth+1); err != nil {
			return nil, err
		}
	}
	for _, keyword := range []string{"oneOf", "anyOf"} {
		if branch, has := g.branch(p.member(keyword)); has {
			var err error
			if rules, err = g.flatten(rules, branch, depth+1); err != nil {
				return nil, err
			}
			if name := g.d.discriminated(p, branch); name != nil {
				rules = append(rules, rule{place{name, p.at}, name})
			}
		}
	}
	return rules, nil
}

// branch chooses one of the schemas in a list. It chooses the schema of null only if there is no other.
func (g *generator) branch(p place) (place, bool) {
	list, _ := p.value.([]any)
	var all []place
	for i := range list {
		if item := p.item(i); item.text("type") != "null" {
			all = append(all, item)
		}
	}
	switch {
	case len(list) == 0:
		return place{}, false
	case len(all) == 0:
		return p.item(0), true
	}
	return all[g.choice%len(all)], true
}

// discriminated returns a schema that requires the value of the discriminator that stands for a branch. It returns nil
// if there is no discriminator.
func (d *Document) discriminated(p, branch place) map[string]any {
	property, _ := member(member(p.value, "discriminator"), "propertyName").(string)
	reference := branch.text("$ref")
	if property == "" || reference == "" {
		return nil
	}
	value := lastToken(reference)
	mapping, _ := member(member(p.value, "discriminator"), "mapping").(map[string]any)
	for name, target := range mapping {
		if target == reference || target == value {
			value = name
		}
	}
	return map[string]any{
		"properties": map[string]any{property: map[string]any{"const": value}}, "required": []any{property},
	}
}

// types returns the types that all rules allow. It infers the type from other keywords if no rule has one.
func types(rules []rule) []string {
	allowed := []string{"object", "array", "string", "number", "integer", "boolean", "null"}
	isDeclared := false
	for _, r := range rules {
		var own []string
		switch t := r.object["type"].(type) {
		case string:
			own = []string{t}
		case []any:
			for _, name := range t {
				text, _ := name.(string)
				own = append(own, text)
			}
		default:
			continue
		}
		isDeclared = true
		allowed = slices.DeleteFunc(allowed, func(name string) bool {
			return !slices.Contains(own, name) && (name != "integer" || !slices.Contains(own, "number"))
		})
	}
	if isDeclared {
		// A number is the usual value of a type that allows numbers and, with them, integers.
		if i := slices.Index(allowed, "number"); i >= 0 {
			allowed = slices.DeleteFunc(allowed, func(name string) bool { return name == "integer" })
		}
		return allowed
	}
	for _, inferred := range []struct {
		name     string
		keywords []string
	}{
		{"object", []string{"properties", "required", "additionalProperties", "minProperties"}},
		{"array", []string{"items", "minItems", "prefixItems"}},
		{"number", []string{"minimum", "maximum", "multipleOf"}},
	} {
		for _, r := range rules {
			for _, keyword := range inferred.keywords {
				if _, has := r.object[keyword]; has {
					return []string{inferred.name}
				}
			}
		}
	}
	return []string{"string"}
}

// constants returns the values that enum and const allow, and whether a rule has one of them.
func constants(rules []rule) (allowed []any, has bool) {
	for _, r := range rules {
		own, isList := r.object["enum"].([]any)
		if value, isConst := r.object["const"]; isConst {
			own, isList = []any{value}, true
		}
		if !isList {
			continue
		}
		if !has {
			allowed, has = slices.Clone(own), true
			continue
		}
		allowed = slices.DeleteFunc(allowed, func(value any) bool {
			return !slices.ContainsFunc(own, func(other any) bool { return isEqual(value, other) })
		})
	}
	return allowed, has
}
