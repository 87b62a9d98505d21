package project

import (
	"slices"
	"strings"
)

// definedSchema is a converted definition, as far as reportCycle needs it.
type definedSchema struct {
	place place
	// applied are the names of the definitions that the schema applies to the same value as itself.
	applied []string
}

// appliedDefinitions returns the names of the definitions that a converted schema applies to the same value as itself.
func appliedDefinitions(converted any) (names []string) {
	object, isObject := converted.(map[string]any)
	if !isObject {
		return nil
	}
	if reference, ok := object["$ref"].(string); ok {
		names = append(names, strings.TrimPrefix(reference, definitionsPointer))
	}
	for _, keyword := range inPlaceLists {
		parts, _ := object[keyword].([]any)
		for _, part := range parts {
			names = append(names, appliedDefinitions(part)...)
		}
	}
	for _, keyword := range []string{"not", "if", "then", "else"} {
		names = append(names, appliedDefinitions(object[keyword])...)
	}
	dependent, _ := object["dependentSchemas"].(map[string]any)
	for _, schema := range dependent {
		names = append(names, appliedDefinitions(schema)...)
	}
	return distinctNames(names, nil)
}

// reportCycle reports the first definition, in the order of their conversion, that applies itself to the same value,
// directly or through others: the validation of a value would not end.
func (d *definer) reportCycle() {
	visited := map[string]bool{} // false for definitions that are being visited
	var path []string
	var visit func(name string) bool
	visit = func(name string) bool {
		if done, seen := visited[name]; seen {
			if done {
				return false
			}
			d.failCycle(path[slices.Index(path, name):])
			return true
		}
		visited[name] = false
		path = append(path, name)
		if slices.ContainsFunc(d.defined[name].applied, visit) {
			return true
		}
		path, visited[name] = path[:len(path)-1], true
		return false
	}
	for _, name := range d.order {
		if visit(name) {
			return
		}
	}
}

// failCycle reports a cycle at the place of its first definition: each definition applies the next one to the same value,
// and the last definition applies the first.
func (d *definer) failCycle(cycle []string) {
	first := d.defined[cycle[0]].place
	var names []string
	for _, name := range append(slices.Clone(cycle), cycle[0]) {
		names = append(names, printable(d.defined[name].place.at))
	}
	d.c.fail(first.doc.file, first.at, "This schema applies itself to the same value, so a check of a value would not "+
		"end: %s. Remove a reference of this cycle, or move it into a property.", summarizeCycle(names))
}

// maxCycleNames is the maximum number of schemas that an error about a cycle names.
const maxCycleNames = 6

// summarizeCycle returns the names with arrows in between. It leaves out names in the middle of a long cycle.
func summarizeCycle(names []string) string {
	if len(names) > maxCycleNames {
		names = slices.Concat(names[:maxCycleNames-1], []string{"…"}, names[len(names)-1:])
	}
	return strings.Join(names, " → ")
}
