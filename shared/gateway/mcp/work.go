package mcp

import "encoding/json"

// What it costs to hold arguments against a schema is bounded here: each value may be held against each
// alternative of an anyOf, and a client sends a megabyte of values as easily as a kilobyte. A hundred
// alternatives for each of 80,000 objects took a minute of the processor.

// maxWork bounds how many schemas are applied to the values of one call, all told: that takes a second or
// two. Half a million is what a message of plain values has at most.
const maxWork = 600_000

// stringsAtOnce is how many texts are compared in the time that one schema takes. Numbers take as long as a
// schema each, since they are compared exactly.
const stringsAtOnce = 32

// isTooMuch reports whether arguments of so many bytes take too long to be checked.
func (c *checker) isTooMuch(arguments any, bytes int) bool {
	// A value takes two bytes at least, and a schema some ten.
	if bytes/2*(c.bytes/10) <= maxWork {
		return false
	}
	w := &weigher{left: maxWork}
	w.weigh(c.tree, arguments)
	return w.left < 0
}

// weigher goes the way that a validator goes, without comparing anything.
type weigher struct{ left int }

func (w *weigher) weigh(schema, value any) {
	object, ok := schema.(map[string]any)
	if w.left--; w.left < 0 || !ok {
		return
	}
	values, _ := object["enum"].([]any)
	for _, one := range values {
		if _, ok := one.(json.Number); ok {
			w.left--
		}
	}
	w.left -= len(values) / stringsAtOnce
	for _, keyword := range [...]string{"allOf", "anyOf", "oneOf"} {
		parts, _ := object[keyword].([]any)
		for _, part := range parts {
			w.weigh(part, value)
		}
	}
	for _, keyword := range [...]string{"not", "if", "then", "else"} {
		w.weighIf(object, keyword, value)
	}
	dependent, _ := object["dependentSchemas"].(map[string]any)
	for _, part := range dependent {
		w.weigh(part, value)
	}
	switch v := value.(type) {
	case []any:
		w.items(object, v)
	case map[string]any:
		w.members(object, v)
	}
}

func (w *weigher) weighIf(object map[string]any, keyword string, value any) {
	if schema, there := object[keyword]; there {
		w.weigh(schema, value)
	}
}

func (w *weigher) items(object map[string]any, list []any) {
	first, _ := object["prefixItems"].([]any)
	nested := 0
	for i, value := range list {
		if w.left < 0 {
			return
		}
		if i < len(first) {
			w.weigh(first[i], value)
		} else {
			w.weighIf(object, "items", value)
		}
		w.weighIf(object, "contains", value)
		w.weighIf(object, "unevaluatedItems", value)
		switch value.(type) {
		case []any, map[string]any:
			nested++
		}
	}
	if object["uniqueItems"] == true {
		// Lists and objects of one hash can be made at will, and are compared with one another.
		w.left -= len(list) + nested*nested/stringsAtOnce
	}
}

func (w *weigher) members(object, members map[string]any) {
	properties, _ := object["properties"].(map[string]any)
	patterns, _ := object["patternProperties"].(map[string]any)
	for name, value := range members {
		if w.left < 0 {
			return
		}
		if schema, there := properties[name]; there {
			w.weigh(schema, value)
		} else {
			w.weighIf(object, "additionalProperties", value)
		}
		for _, schema := range patterns {
			w.weigh(schema, value)
		}
		w.weighIf(object, "propertyNames", name)
		w.weighIf(object, "unevaluatedProperties", value)
	}
}
