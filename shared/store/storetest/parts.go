package storetest

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/store"
)

// Text is the encoded value of a text.
func Text(s string) store.Value { return &types.AttributeValueMemberS{Value: s} }

// Parts visits an item and the structs within it, which are where inside says so of an attribute's name, alone and
// in lists: elsewhere the names in a map are data. at is where a part stands, "" for the item.
func Parts(item store.Item, inside func(name string) bool, visit func(at string, part store.Item)) {
	parts("", item, inside, visit)
}

func parts(at string, item store.Item, inside func(string) bool, visit func(string, store.Item)) {
	for name, v := range item {
		if !inside(name) {
			continue
		}
		switch v := v.(type) {
		case *types.AttributeValueMemberM:
			parts(at+"."+name, v.Value, inside, visit)
		case *types.AttributeValueMemberL:
			for _, each := range v.Value {
				if m, ok := each.(*types.AttributeValueMemberM); ok {
					parts(at+"."+name, m.Value, inside, visit)
				}
			}
		}
	}
	visit(at, item)
}

// Words are the texts of a value that is a text or a list of them, none of any other.
func Words(v store.Value) (out []string) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return []string{v.Value}
	case *types.AttributeValueMemberL:
		for _, each := range v.Value {
			out = append(out, Words(each)...)
		}
	}
	return out
}

// WithWord is a value with another word: in place of a text, behind those of a list. It is nil for any other value.
func WithWord(v store.Value, word string) store.Value {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return Text(word)
	case *types.AttributeValueMemberL:
		return &types.AttributeValueMemberL{Value: append(slices.Clone(v.Value), Text(word))}
	}
	return nil
}
