package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"
)

// TestNoResourceNeedsItself: CloudFormation refuses a stack whose resources need each other in a
// circle, and only when it is deployed. Functions are told the API's address, and the API's methods
// name the functions.
func TestNoResourceNeedsItself(t *testing.T) {
	for file, raw := range synthesise(t, everything()).raw {
		var stack struct{ Resources map[string]any }
		if err := json.Unmarshal(raw, &stack); err != nil {
			t.Fatal(err)
		}
		needs := map[string][]string{}
		for id, r := range stack.Resources {
			for _, name := range namesIn(r) {
				if _, ok := stack.Resources[name]; ok {
					needs[id] = append(needs[id], name)
				}
			}
		}
		done := map[string]bool{}
		var visit func(id string, way []string)
		visit = func(id string, way []string) {
			if slices.Contains(way, id) {
				t.Errorf("%s: %v leads back to %s", file, way, id)
				return
			}
			if done[id] {
				return
			}
			for _, next := range needs[id] {
				visit(next, append(slices.Clone(way), id))
			}
			done[id] = true
		}
		for _, id := range slices.Sorted(maps.Keys(stack.Resources)) {
			visit(id, nil)
		}
	}
}

// inText are the resources that a text of Fn::Sub names.
var inText = regexp.MustCompile(`\$\{([A-Za-z0-9]+)[.}]`)

// namesIn gives the names of all that a part of a template needs, and of more: of parameters and of
// what only looks like a name.
func namesIn(v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, in := range v {
			switch name {
			case "Ref":
				out = append(out, textsOf(in)...)
			case "Fn::GetAtt":
				out = append(out, textsOf(get(in, 0))...)
			case "DependsOn":
				out = append(out, textsOf(in)...)
			case "Fn::Sub":
				for _, text := range textsOf(in) {
					for _, found := range inText.FindAllStringSubmatch(text, -1) {
						out = append(out, found[1])
					}
				}
			default:
				out = append(out, namesIn(in)...)
			}
		}
	case []any:
		for _, in := range v {
			out = append(out, namesIn(in)...)
		}
	}
	return out
}

// textsOf gives those of a text or of a list of them.
func textsOf(v any) (out []string) {
	if text, ok := v.(string); ok {
		return []string{text}
	}
	list, _ := v.([]any)
	for _, in := range list {
		if text, ok := in.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
