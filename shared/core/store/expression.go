package store

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// expression writes conditions and changes as DynamoDB expressions. All names become placeholders,
// so that no attribute collides with a reserved word. The same writes always produce the same text,
// because DynamoDB refuses a repeat of a transaction under the same token if a single byte differs.
// The builder of the SDK does not promise this, and it cannot handle a name that contains a dot.
type expression struct {
	names        map[string]string
	values       map[string]types.AttributeValue
	placeholders map[string]string // placeholders by name
}

// path returns the placeholders of a path.
func (e *expression) path(path Path) string {
	parts := make([]string, len(path))
	for i, name := range path {
		parts[i] = e.name(name)
	}
	return strings.Join(parts, ".")
}

// name returns the placeholder of a name.
func (e *expression) name(name string) string {
	placeholder, ok := e.placeholders[name]
	if !ok {
		if e.names == nil {
			e.names, e.placeholders = map[string]string{}, map[string]string{}
		}
		placeholder = fmt.Sprintf("#%d", len(e.names))
		e.names[placeholder], e.placeholders[name] = name, placeholder
	}
	return placeholder
}

// value returns a new placeholder for v.
func (e *expression) value(v types.AttributeValue) string {
	if e.values == nil {
		e.values = map[string]types.AttributeValue{}
	}
	placeholder := fmt.Sprintf(":%d", len(e.values))
	e.values[placeholder] = v
	return placeholder
}

// condition returns the text of c, nil if there is no condition.
func (e *expression) condition(c Condition) *string {
	if c == nil {
		return nil
	}
	text := e.predicate(c)
	return &text
}

// predicate returns the text of c, which must not be nil.
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
			// An absent attribute differs from every value. DynamoDB's
			// documentation does not say this, so write it into the condition.
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
		operator := " AND "
		if c.any {
			operator = " OR "
		}
		return "(" + strings.Join(parts, operator) + ")"
	}
	return ""
}

// update returns the text of changes. It writes Add as a sum,
// because DynamoDB's ADD action supports only top-level attributes.
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
