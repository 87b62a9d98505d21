package store

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// expression writes conditions and changes in DynamoDB's language. All names
// go through placeholders, so that no attribute meets a reserved word. The same
// writes give the same text every time: a repeated transaction must not differ
// from the first by a byte, or DynamoDB refuses its token (the SDK's own
// builder gives no such promise, and cannot take a name that holds a dot).
type expression struct {
	names  map[string]string
	values map[string]types.AttributeValue
	known  map[string]string // placeholders by name
}

// path gives the placeholders of a path.
func (e *expression) path(path Path) string {
	parts := make([]string, len(path))
	for i, name := range path {
		parts[i] = e.name(name)
	}
	return strings.Join(parts, ".")
}

func (e *expression) name(name string) string {
	placeholder, ok := e.known[name]
	if !ok {
		if e.names == nil {
			e.names, e.known = map[string]string{}, map[string]string{}
		}
		placeholder = fmt.Sprintf("#%d", len(e.names))
		e.names[placeholder], e.known[name] = name, placeholder
	}
	return placeholder
}

func (e *expression) value(v types.AttributeValue) string {
	if e.values == nil {
		e.values = map[string]types.AttributeValue{}
	}
	placeholder := fmt.Sprintf(":%d", len(e.values))
	e.values[placeholder] = v
	return placeholder
}

// condition gives c's text, nil for no condition.
func (e *expression) condition(c Condition) *string {
	if c == nil {
		return nil
	}
	text := e.predicate(c)
	return &text
}

func (e *expression) predicate(c Condition) string {
	switch c := c.(type) {
	case existence:
		path := c.path
		if path == nil {
			path = At(pkAttribute)
		}
		if c.want {
			return "attribute_exists(" + e.path(path) + ")"
		}
		return "attribute_not_exists(" + e.path(path) + ")"
	case comparison:
		text := e.path(c.path) + " " + c.op + " " + e.value(c.value)
		if c.op == "<>" {
			// An absent attribute differs from everything; no word of
			// DynamoDB's documentation says so, hence it is spelled out.
			text = "(attribute_not_exists(" + e.path(c.path) + ") OR " + text + ")"
		}
		return text
	case combination:
		if len(c.parts) == 1 { // DynamoDB refuses doubled parentheses
			return e.predicate(c.parts[0])
		}
		parts := make([]string, len(c.parts))
		for i, part := range c.parts {
			parts[i] = e.predicate(part)
		}
		word := " AND "
		if c.any {
			word = " OR "
		}
		return "(" + strings.Join(parts, word) + ")"
	}
	return ""
}

// update gives the text of changes. Add is written as a sum, because the ADD
// action is for top-level attributes only.
func (e *expression) update(changes []Change) *string {
	var sets, removes []string
	for _, c := range changes {
		path := e.path(c.Path)
		switch c.Kind {
		case SetKind:
			sets = append(sets, path+" = "+e.value(c.Value))
		case AddKind:
			zero := e.value(&types.AttributeValueMemberN{Value: "0"})
			sets = append(sets, path+" = if_not_exists("+path+", "+zero+") + "+e.value(c.Value))
		case RemoveKind:
			removes = append(removes, path)
		}
	}
	var actions []string
	if sets != nil {
		actions = append(actions, "SET "+strings.Join(sets, ", "))
	}
	if removes != nil {
		actions = append(actions, "REMOVE "+strings.Join(removes, ", "))
	}
	text := strings.Join(actions, " ")
	return &text
}
