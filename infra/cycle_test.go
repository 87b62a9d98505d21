package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"testing"
)

// TestResourcesHaveNoDependencyCycle checks for dependency cycles, which CloudFormation refuses only during the
// deployment. A cycle is likely: the settings of functions contain the API's address, and the API's methods name the
// functions.
func TestResourcesHaveNoDependencyCycle(t *testing.T) {
	for file, raw := range synthesize(t, fullContext()).raw {
		var stack struct{ Resources map[string]any }
		if err := json.Unmarshal(raw, &stack); err != nil {
			t.Fatal(err)
		}
		dependencies := map[string][]string{}
		for id, r := range stack.Resources {
			for _, name := range referencesIn(r) {
				if _, ok := stack.Resources[name]; ok {
					dependencies[id] = append(dependencies[id], name)
				}
			}
		}
		visited := map[string]bool{}
		var visit func(id string, path []string)
		visit = func(id string, path []string) {
			if slices.Contains(path, id) {
				t.Errorf("%s: dependencies %v lead back to %s, want no cycle", file, path, id)
				return
			}
			if visited[id] {
				return
			}
			for _, next := range dependencies[id] {
				visit(next, append(slices.Clone(path), id))
			}
			visited[id] = true
		}
		for _, id := range slices.Sorted(maps.Keys(stack.Resources)) {
			visit(id, nil)
		}
	}
}

// subReference matches the references to resources in a text of Fn::Sub.
var subReference = regexp.MustCompile(`\$\{([A-Za-z0-9]+)[.}]`)

// referencesIn returns the logical ids of all resources to which a part of a template refers. It may also return names
// of parameters and pseudo parameters.
func referencesIn(v any) (out []string) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			switch name {
			case "Ref":
				out = append(out, stringsOf(value)...)
			case "Fn::GetAtt":
				out = append(out, stringsOf(get(value, 0))...)
			case "DependsOn":
				out = append(out, stringsOf(value)...)
			case "Fn::Sub":
				for _, text := range stringsOf(value) {
					for _, match := range subReference.FindAllStringSubmatch(text, -1) {
						out = append(out, match[1])
					}
				}
			default:
				out = append(out, referencesIn(value)...)
			}
		}
	case []any:
		for _, value := range v {
			out = append(out, referencesIn(value)...)
		}
	}
	return out
}

// stringsOf returns v if it is a text, or the texts in v if it is a list.
func stringsOf(v any) (out []string) {
	if text, ok := v.(string); ok {
		return []string{text}
	}
	list, _ := v.([]any)
	for _, item := range list {
		if text, ok := item.(string); ok {
			out = append(out, text)
		}
	}
	return out
}
