package storetest

import (
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
