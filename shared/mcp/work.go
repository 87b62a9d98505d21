package mcp

import (
	"context"
	"encoding/json"
	"sync/atomic"
)

// What it costs to hold arguments against a schema is bounded here: each value may be held against each
// alternative of an anyOf, and a client sends a megabyte of values as easily as a kilobyte. A hundred
// alternatives for each of 80,000 objects took a minute of the processor, and one text of a megabyte
// half a minute for a pattern of counts within counts.

// maxWork bounds how many schemas are applied to the values of one body, in all of its calls: that takes a second or
// two. A body has 50,000 values at most.
const maxWork = 600_000

// What takes the time of one schema, some 2 µs.
const (
	// enumeratedAtOnce is how many texts of an enumeration are compared. Numbers take as long as a schema each, since
	// they are compared exactly.
	enumeratedAtOnce = 32
	// copiedAtOnce is how many bytes of a text are copied, which each schema does that a text is held against:
	// 2.7 ns each.
	copiedAtOnce = 512
	// matchedAtOnce is how many instructions of a pattern are tried on a byte of a text, or one of them on how many
	// bytes: 10 to 25 ns each for those that RE2 has no short way for.
	matchedAtOnce = 64
)

// workKey is where the context of a batch's calls has what is left of maxWork for them, an *atomic.Int64.
type workKey struct{}

// sharesWork has all calls of a context checked within one maxWork.
func sharesWork(ctx context.Context) context.Context {
	left := &atomic.Int64{}
	left.Store(maxWork)
	return context.WithValue(ctx, workKey{}, left)
}

// isTooMuch reports whether arguments of so many bytes take too long to be checked.
func (c *Schema) isTooMuch(ctx context.Context, arguments any, bytes int) bool {
	w := &weigher{left: maxWork, patterns: c.patterns}
	shared, ok := ctx.Value(workKey{}).(*atomic.Int64)
	switch {
	case ok:
		w.left = int(shared.Load())
	case c.most.of(bytes) <= maxWork:
		return false
	}
	w.weigh(c.tree, arguments)
	if w.left < 0 {
		return true
	}
	if ok {
		shared.Store(int64(w.left))
	}
	return false
}

// most is what a schema takes at most, whatever the values: so that those of ordinary calls are not weighed.
type most struct {
	// parts are its JSON values: each schema is one, and so is each value of an enumeration.
	parts int
	// instructions are those of all of its patterns, and lists its schemas of lists without equals.
	instructions, lists int
}

func (m *most) count(part any, patterns map[string]program) {
	m.parts++
	switch v := part.(type) {
	case []any:
		for _, each := range v {
			m.count(each, patterns)
		}
	case map[string]any:
		if text, ok := v["pattern"].(string); ok {
			m.instructions += patterns[text].instructions
		}
		names, _ := v["patternProperties"].(map[string]any)
		for text := range names {
			m.instructions += patterns[text].instructions
		}
		if v["uniqueItems"] == true {
			m.lists++
		}
		for _, each := range v {
			m.count(each, patterns)
		}
	}
}

// of is what arguments of so many bytes take at most. A value or a name has two of them at least, a list within a list
// three with its comma, and no part of a schema is held against the same value twice.
func (m *most) of(bytes int) int {
	values, nested := bytes/2+1, bytes/3+1
	return values*m.parts + bytes*m.instructions/matchedAtOnce + m.lists*(values+nested*nested/enumeratedAtOnce)
}

// weigher goes the way that a validator goes, without comparing anything.
type weigher struct {
	left     int
	patterns map[string]program
}

func (w *weigher) weigh(schema, value any) {
	object, ok := schema.(map[string]any)
	if w.left--; w.left < 0 || !ok {
		return
	}
	values, _ := object["enum"].([]any)
	others := 0
	for _, one := range values {
		if _, ok := one.(json.Number); ok {
			w.left--
		} else {
			others++
		}
	}
	w.left -= others / enumeratedAtOnce
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
	case string:
		pattern, _ := object["pattern"].(string)
		w.left -= len(v)/copiedAtOnce + w.match(pattern, v)
	case []any:
		w.items(object, v)
	case map[string]any:
		w.members(object, v)
	}
}

// match is what it takes to hold a text against a pattern, nothing for one that is not checked.
func (w *weigher) match(pattern, text string) int {
	return len(text) * w.patterns[pattern].instructions / matchedAtOnce
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
		w.left -= len(list) + nested*nested/enumeratedAtOnce
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
		for pattern, schema := range patterns {
			w.left -= w.match(pattern, name)
			w.weigh(schema, value)
		}
		w.weighIf(object, "propertyNames", name)
		w.weighIf(object, "unevaluatedProperties", value)
	}
}
