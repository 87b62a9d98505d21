package store

import (
	"bytes"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Holds reports whether the write's condition holds for before, the item before the write (nil if it does not exist).
func (w Write) Holds(before Item) (bool, error) { return evaluate(w.Condition, before) }

// Apply returns the item after the write, nil if the item does not exist then. It
// does not check the condition. It does not change before, the item before the write.
// The caller must not change the result, because for a put the result is w.Item.
func (w Write) Apply(before Item) (Item, error) {
	switch w.Kind {
	case PutKind:
		return w.Item, nil
	case DeleteKind:
		return nil, nil
	case CheckKind:
		return before, nil
	case UpdateKind:
		after := Clone(before)
		if after == nil {
			after = w.Key.Item()
		}
		for _, c := range w.Changes {
			if err := change(after, c); err != nil {
				return nil, err
			}
		}
		return after, nil
	}
	return nil, fmt.Errorf("store: unknown write %d", w.Kind)
}

// change makes the change c of item, in place.
func change(item Item, c Change) error {
	last := len(c.Path) - 1
	for _, name := range c.Path[:last] {
		m, ok := item[name].(*types.AttributeValueMemberM)
		if !ok {
			return fmt.Errorf("store: no map at %s of the path %v", name, c.Path)
		}
		item = m.Value
	}
	name := c.Path[last]
	switch c.Kind {
	case SetKind:
		item[name] = c.Value
	case RemoveKind:
		delete(item, name)
	case AddKind:
		sum, err := number(c.Value)
		if err != nil {
			return err
		}
		if old, ok := item[name]; ok {
			n, err := number(old)
			if err != nil {
				return err
			}
			sum.Add(sum, n)
		}
		item[name] = &types.AttributeValueMemberN{Value: decimal(sum)}
	}
	return nil
}

func evaluate(c Condition, item Item) (bool, error) {
	switch c := c.(type) {
	case nil:
		return true, nil
	case existence:
		if c.path == nil {
			return (item != nil) == c.want, nil
		}
		return (lookup(item, c.path) != nil) == c.want, nil
	case comparison:
		if c.err != nil {
			return false, c.err
		}
		return evaluateComparison(lookup(item, c.path), c)
	case combination:
		for _, part := range c.parts {
			ok, err := evaluate(part, item)
			if err != nil || ok == c.any {
				return ok, err
			}
		}
		return !c.any, nil
	}
	return false, fmt.Errorf("store: unknown condition %T", c)
}

func evaluateComparison(actual types.AttributeValue, c comparison) (bool, error) {
	if actual == nil {
		return c.op == "<>", nil
	}
	switch c.op {
	case "=":
		return equal(actual, c.value), nil
	case "<>":
		return !equal(actual, c.value), nil
	}
	order, ok := compareValues(actual, c.value)
	if !ok {
		return false, nil
	}
	switch c.op {
	case "<":
		return order < 0, nil
	case "<=":
		return order <= 0, nil
	case ">":
		return order > 0, nil
	case ">=":
		return order >= 0, nil
	}
	return false, fmt.Errorf("store: unknown operator %q", c.op)
}

// compareValues compares two values. ok is false if they have different types or a type without an order, or if a
// number is invalid.
func compareValues(a, b types.AttributeValue) (order int, ok bool) {
	switch a := a.(type) {
	case *types.AttributeValueMemberN:
		if b, ok := b.(*types.AttributeValueMemberN); ok {
			x, errX := number(a)
			y, errY := number(b)
			if errX == nil && errY == nil {
				return x.Cmp(y), true
			}
		}
	case *types.AttributeValueMemberS:
		if b, ok := b.(*types.AttributeValueMemberS); ok {
			return strings.Compare(a.Value, b.Value), true
		}
	case *types.AttributeValueMemberB:
		if b, ok := b.(*types.AttributeValueMemberB); ok {
			return bytes.Compare(a.Value, b.Value), true
		}
	}
	return 0, false
}

// equal reports whether DynamoDB treats a and b as the same value.
// Numbers are compared by their value, sets without regard to order.
func equal(a, b types.AttributeValue) bool {
	if order, ok := compareValues(a, b); ok {
		return order == 0
	}
	switch a := a.(type) {
	case *types.AttributeValueMemberBOOL:
		b, ok := b.(*types.AttributeValueMemberBOOL)
		return ok && a.Value == b.Value
	case *types.AttributeValueMemberNULL:
		_, ok := b.(*types.AttributeValueMemberNULL)
		return ok
	case *types.AttributeValueMemberM:
		b, ok := b.(*types.AttributeValueMemberM)
		return ok && EqualItems(a.Value, b.Value)
	case *types.AttributeValueMemberL:
		b, ok := b.(*types.AttributeValueMemberL)
		return ok && slices.EqualFunc(a.Value, b.Value, equal)
	case *types.AttributeValueMemberSS:
		b, ok := b.(*types.AttributeValueMemberSS)
		return ok && slices.Equal(slices.Sorted(slices.Values(a.Value)), slices.Sorted(slices.Values(b.Value)))
	}
	return false // number and binary sets are not used
}

// EqualItems reports whether DynamoDB treats a and b as the same item. The
// stream has no record of a write that replaces an item with an equal item.
func EqualItems(a, b Item) bool { return maps.EqualFunc(a, b, equal) }

// lookup returns the value at path, nil if there is none.
func lookup(item Item, path Path) types.AttributeValue {
	for i, name := range path {
		v, ok := item[name]
		if !ok || i == len(path)-1 {
			return v
		}
		m, ok := v.(*types.AttributeValueMemberM)
		if !ok {
			return nil
		}
		item = m.Value
	}
	return nil
}

func number(v types.AttributeValue) (*big.Rat, error) {
	n, ok := v.(*types.AttributeValueMemberN)
	if !ok {
		return nil, fmt.Errorf("store: %T is no number", v)
	}
	r, ok := new(big.Rat).SetString(n.Value)
	if !ok {
		return nil, fmt.Errorf("store: %q is no number", n.Value)
	}
	return r, nil
}

// decimal formats a number as DynamoDB returns it.
func decimal(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	const digits = 38 // after the point; a number in DynamoDB has at most 38 significant digits
	return strings.TrimRight(r.FloatString(digits), "0")
}

func textOf(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// Clone returns a copy of an item. Maps are copied, all other values are shared. So a Write that is applied to the copy
// does not change the original.
func Clone(item Item) Item {
	if item == nil {
		return nil
	}
	out := make(Item, len(item))
	for name, v := range item {
		if m, ok := v.(*types.AttributeValueMemberM); ok {
			v = &types.AttributeValueMemberM{Value: Clone(m.Value)}
			if m.Value == nil {
				v = &types.AttributeValueMemberM{Value: Item{}}
			}
		}
		out[name] = v
	}
	return out
}
