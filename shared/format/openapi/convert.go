package openapi

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/format/schema"
)

// part is a value that consists of texts, whose types are not known yet. At most one of list, members and decoded is set.
// If none is set, the value is text.
type part struct {
	text string
	list []part
	// members are the properties of an object.
	members map[string]part
	// decoded is a value with types, which was JSON in the message. If text is set too, the text can be an item of a list.
	decoded *any
}

func textPart(text string) part { return part{text: text} }

// listPart returns a list of texts, which can be empty.
func listPart(texts []string) part {
	p := part{list: make([]part, 0, len(texts))}
	for _, text := range texts {
		p.list = append(p.list, textPart(text))
	}
	return p
}

// isIndexed reports whether the names of the properties are 0, 1, 2 and so on: items of a list in the style deepObject.
func (p part) isIndexed() bool {
	for i := range len(p.members) {
		if _, exists := p.members[strconv.Itoa(i)]; !exists {
			return false
		}
	}
	return true
}

// target is the shape of a value and, for some levels, of its items and properties.
type target struct {
	shape *schema.Shape
	items *target
	// properties has the targets of the declared properties. names are the names of these properties. other is the target
	// of all other properties, or nil if their targets depend on their names.
	properties map[string]*target
	names      []string
	other      *target
}

// targetLevels is the number of levels whose shapes are computed once. The shapes of deeper levels, which only forms and
// the style deepObject can have, are computed for each request.
const targetLevels = 2

func newTarget(shape *schema.Shape, levels int) *target {
	t := &target{shape: shape}
	if shape.IsUnrestricted() {
		return t
	}
	if shape.Allows("object") {
		t.names = shape.Properties()
	}
	if levels == 0 {
		return t
	}
	if shape.Allows("array") {
		t.items = newTarget(shape.Item(shape.PrefixLength()), levels-1)
	}
	if shape.Allows("object") {
		t.properties = make(map[string]*target, len(t.names))
		for _, name := range t.names {
			t.properties[name] = newTarget(shape.Property(name), levels-1)
		}
		if !shape.HasPatterns() {
			t.other = newTarget(shape.Property(""), levels-1)
		}
	}
	return t
}

// item returns the target of an item. It creates the target if necessary, and subtracts the work for that.
func (t *target) item(i int, work *schema.Work) *target {
	if t.items != nil && i >= t.shape.PrefixLength() {
		return t.items
	}
	if work.Remaining() < 0 {
		return t
	}
	return t.create(t.shape.Item(i), work)
}

// property is like item, for a property.
func (t *target) property(name string, work *schema.Work) *target {
	if known := t.properties[name]; known != nil {
		return known
	}
	if t.other != nil {
		return t.other
	}
	if work.Remaining() < 0 {
		return t
	}
	return t.create(t.shape.Property(name), work)
}

func (t *target) create(shape *schema.Shape, work *schema.Work) *target {
	work.Spend(shape.Work())
	return newTarget(shape, 0)
}

// allowsList reports whether the schema expects lists. allowsObject and allowsText do the same for objects and for texts,
// including numbers, booleans and null. A schema that allows every type expects only texts.
func (t *target) allowsList() bool { return !t.shape.IsUnrestricted() && t.shape.Allows("array") }

func (t *target) allowsObject() bool { return !t.shape.IsUnrestricted() && t.shape.Allows("object") }

func (t *target) allowsText() bool {
	for _, name := range []string{"string", "integer", "boolean", "null"} {
		if t.shape.Allows(name) {
			return true
		}
	}
	return false
}

// allowsOnlyJSON reports whether the schema expects values that no style can express within lists and objects, so that
// clients send them as JSON.
func (t *target) allowsOnlyJSON() bool {
	return (t.allowsList() || t.allowsObject()) && !t.allowsText()
}

// readings returns the possible values of parts, the most likely one first. A text that is a number can also be a string,
// if the schema allows both.
func (t *target) readings(work *schema.Work, parts ...part) []any {
	var out []any
	for _, p := range parts {
		c := converter{typed: true, work: work}
		out = append(out, c.convert(t, p))
		if c.ambiguous {
			out = append(out, (&converter{work: work}).convert(t, p))
		}
	}
	return out
}

// converter converts texts to the types that a schema allows.
type converter struct {
	// typed prefers other types to strings. Without it, a text stays a string if the schema allows strings.
	typed bool
	// ambiguous is set when a text could become another type than a string, and the schema allows strings too.
	ambiguous bool
	work      *schema.Work
}

func (c *converter) convert(t *target, p part) any {
	switch {
	case p.decoded != nil:
		return *p.decoded
	case p.list != nil:
		list := make([]any, len(p.list))
		prefix := t.shape.PrefixLength()
		rest := t.item(prefix, c.work)
		for i, element := range p.list {
			item := rest
			if i < prefix {
				item = t.item(i, c.work)
			}
			list[i] = c.convert(item, element)
		}
		return list
	case p.members != nil && t.allowsList() && !t.allowsObject() && p.isIndexed():
		list := make([]any, len(p.members))
		for i := range list {
			list[i] = c.convert(t.item(i, c.work), p.members[strconv.Itoa(i)])
		}
		return list
	case p.members != nil:
		object := make(map[string]any, len(p.members))
		for name, member := range p.members {
			object[name] = c.convert(t.property(name, c.work), member)
		}
		return object
	}
	if t.allowsOnlyJSON() && p.text != "" && (p.text[0] == '{' || p.text[0] == '[') {
		if value, violation := schema.Decode([]byte(p.text)); violation == nil && c.work.Spend(len(p.text)/64) {
			return value
		}
	}
	value := convertText(t.shape, p.text)
	if _, isText := value.(string); !isText && t.shape.Allows("string") {
		c.ambiguous = true
		if !c.typed {
			return p.text
		}
	}
	return value
}

// convertText converts a text to the type that the schema allows, or returns it as a string. Integers consist of digits
// with an optional minus, because few servers read 1e3 or 1.0 as an integer. Other numbers have the syntax of JSON.
func convertText(shape *schema.Shape, text string) any {
	switch {
	case text == "null" && shape.Allows("null"), text == "" && shape.Allows("null") && !shape.Allows("string"):
		return nil
	case text == "true" && shape.Allows("boolean"):
		return true
	case text == "false" && shape.Allows("boolean"):
		return false
	case shape.Allows("integer") && isNumber(text) && schema.IsSafeNumber(text):
		if number, err := strconv.ParseFloat(text, 64); !shape.Allows("number") && strings.ContainsAny(text, ".eE") &&
			err == nil && number == math.Trunc(number) {
			return text
		}
		return json.Number(text)
	}
	return text
}

// isNumber reports whether a text has JSON's syntax of a number.
func isNumber(text string) bool {
	if text == "" || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
		return false
	}
	last := text[len(text)-1]
	return last >= '0' && last <= '9' && json.Valid([]byte(text))
}
