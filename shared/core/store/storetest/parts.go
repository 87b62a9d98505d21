package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Text returns the encoded value of a text.
func Text(s string) store.Value { return &types.AttributeValueMemberS{Value: s} }

// Parts calls visit for an item and the structs within it. nested reports whether the attribute
// with a name contains a struct or a list of structs. Parts does not visit other maps, because their
// keys are data and not attribute names. path is the path of a part, such as ".a.b", or "" for the item.
func Parts(item store.Item, nested func(name string) bool, visit func(path string, part store.Item)) {
	parts("", item, nested, visit)
}

func parts(path string, item store.Item, nested func(string) bool, visit func(string, store.Item)) {
	for name, v := range item {
		if !nested(name) {
			continue
		}
		switch v := v.(type) {
		case *types.AttributeValueMemberM:
			parts(path+"."+name, v.Value, nested, visit)
		case *types.AttributeValueMemberL:
			for _, element := range v.Value {
				if m, ok := element.(*types.AttributeValueMemberM); ok {
					parts(path+"."+name, m.Value, nested, visit)
				}
			}
		}
	}
	visit(path, item)
}

// Texts returns the texts of a value that is a text or a list of texts, and nil for other values.
func Texts(v store.Value) (out []string) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return []string{v.Value}
	case *types.AttributeValueMemberL:
		for _, element := range v.Value {
			out = append(out, Texts(element)...)
		}
	}
	return out
}

// WithText returns a value of the type of v that contains the given text. For a string, it returns the text. For a
// list, it returns a copy of the list with the text appended. For other values, it returns nil.
func WithText(v store.Value, text string) store.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return Text(text)
	case *types.AttributeValueMemberL:
		return &types.AttributeValueMemberL{Value: append(slices.Clone(v.Value), Text(text))}
	}
	return nil
}

// SmallNumbers returns the names and values of the attributes of an item whose values are numbers of one to six digits,
// as text or as numbers: " count=3 sequence=12", for example. It includes attributes in maps, and in maps in lists, but
// not the elements of lists. Equal items have equal results.
func SmallNumbers(item store.Item) string { return string(appendSmallNumbers(nil, item)) }

func appendSmallNumbers(out []byte, item store.Item) []byte {
	for _, name := range slices.Sorted(maps.Keys(item)) {
		text := ""
		switch v := item[name].(type) {
		case *types.AttributeValueMemberS:
			text = v.Value
		case *types.AttributeValueMemberN:
			text = v.Value
		case *types.AttributeValueMemberM:
			out = appendSmallNumbers(out, v.Value)
		case *types.AttributeValueMemberL:
			for _, element := range v.Value {
				if m, ok := element.(*types.AttributeValueMemberM); ok {
					out = appendSmallNumbers(out, m.Value)
				}
			}
		}
		if len(text) > 6 {
			continue
		}
		if _, err := strconv.ParseUint(text, 10, 64); err == nil {
			out = fmt.Appendf(out, " %s=%s", name, text)
		}
	}
	return out
}
