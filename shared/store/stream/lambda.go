package stream

import (
	"fmt"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/store"
)

// FromLambda converts a record of the event that a Lambda is called with.
func FromLambda(r events.DynamoDBEventRecord) (store.StreamRecord, error) {
	return record(r.Change.Keys, r.Change.OldImage, r.Change.NewImage, fromLambda)
}

func fromLambda(v events.DynamoDBAttributeValue) (store.Value, error) {
	switch v.DataType() {
	case events.DataTypeBinary:
		return &types.AttributeValueMemberB{Value: v.Binary()}, nil
	case events.DataTypeBoolean:
		return &types.AttributeValueMemberBOOL{Value: v.Boolean()}, nil
	case events.DataTypeBinarySet:
		return &types.AttributeValueMemberBS{Value: v.BinarySet()}, nil
	case events.DataTypeList:
		out := &types.AttributeValueMemberL{Value: make([]store.Value, len(v.List()))}
		for i, e := range v.List() {
			var err error
			if out.Value[i], err = fromLambda(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case events.DataTypeMap:
		out := &types.AttributeValueMemberM{Value: make(store.Item, len(v.Map()))}
		for name, e := range v.Map() {
			var err error
			if out.Value[name], err = fromLambda(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case events.DataTypeNumber:
		return &types.AttributeValueMemberN{Value: v.Number()}, nil
	case events.DataTypeNumberSet:
		return &types.AttributeValueMemberNS{Value: v.NumberSet()}, nil
	case events.DataTypeNull:
		return &types.AttributeValueMemberNULL{Value: true}, nil
	case events.DataTypeString:
		return &types.AttributeValueMemberS{Value: v.String()}, nil
	case events.DataTypeStringSet:
		return &types.AttributeValueMemberSS{Value: v.StringSet()}, nil
	}
	return nil, fmt.Errorf("stream: unknown type %d of a value", v.DataType())
}
