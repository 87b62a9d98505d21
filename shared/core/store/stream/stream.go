// Package stream converts records of the table's stream between the form that a Lambda receives and store.StreamRecord.
//
// The package does not read the stream. A function that is called with a batch of records passes the batch
// and its handler to Handle. A process that calls such a function creates the records with ToLambda.
//
// This file and filter.go are the whole package. The stream's kind (old and new images) is declared in store.Schema.
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Handle decodes a batch of records, calls handle with them, and returns the sequence numbers of the records that
// failed. handle must return the indexes of failed records in its argument. Handle logs and skips a record that it
// cannot decode.
func Handle(
	ctx context.Context, log *slog.Logger, in []events.DynamoDBEventRecord,
	handle func(context.Context, []store.StreamRecord) (failed []int),
) events.DynamoDBEventResponse {
	records := make([]store.StreamRecord, 0, len(in))
	numbers := make([]string, 0, len(in))
	for _, r := range in {
		decoded, err := FromLambda(r)
		if err != nil {
			// Skip the record: a repeat would fail too, and would block
			// all later records. A sweep finds the change of this record.
			log.ErrorContext(ctx, "a record of the stream is passed over", "sequenceNumber", r.Change.SequenceNumber, "cause",
				err)
			continue
		}
		records = append(records, decoded)
		numbers = append(numbers, r.Change.SequenceNumber)
	}
	out := events.DynamoDBEventResponse{BatchItemFailures: []events.DynamoDBBatchItemFailure{}}
	for _, i := range handle(ctx, records) {
		out.BatchItemFailures = append(out.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: numbers[i]})
	}
	return out
}

// FromLambda converts a record of the event that a Lambda is called with.
func FromLambda(r events.DynamoDBEventRecord) (store.StreamRecord, error) {
	items := [3]store.Item{}
	for i, from := range []map[string]events.DynamoDBAttributeValue{r.Change.Keys, r.Change.OldImage, r.Change.NewImage} {
		var err error
		if items[i], err = FromLambdaItem(from); err != nil {
			return store.StreamRecord{}, err
		}
	}
	out := store.StreamRecord{Key: store.KeyOf(items[0]), Old: items[1], New: items[2]}
	if out.Key.PK == "" || out.Key.SK == "" {
		return store.StreamRecord{}, errNoKey
	}
	return out, nil
}

// FromLambdaItem converts an item from the form that a Lambda receives. An empty item becomes nil.
func FromLambdaItem(from map[string]events.DynamoDBAttributeValue) (store.Item, error) {
	if len(from) == 0 {
		return nil, nil
	}
	out := make(store.Item, len(from))
	for name, v := range from {
		converted, err := fromLambdaValue(v)
		if err != nil {
			return nil, fmt.Errorf("decode %s of a stream record: %w", name, err)
		}
		out[name] = converted
	}
	return out, nil
}

var errNoKey = errors.New("stream: a record without a key")

// fromLambdaValue converts a value from the form that a Lambda receives.
func fromLambdaValue(v events.DynamoDBAttributeValue) (store.Value, error) {
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
			if out.Value[i], err = fromLambdaValue(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case events.DataTypeMap:
		out := &types.AttributeValueMemberM{Value: make(store.Item, len(v.Map()))}
		for name, e := range v.Map() {
			var err error
			if out.Value[name], err = fromLambdaValue(e); err != nil {
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

// ToLambda returns the record that a Lambda receives, but without the fields that package store does not know, such as
// the event's id, its time and its sequence number.
func ToLambda(r store.StreamRecord) (out events.DynamoDBEventRecord, err error) {
	out = events.DynamoDBEventRecord{
		EventName: string(events.DynamoDBOperationTypeModify), EventSource: "aws:dynamodb", EventVersion: "1.1",
		Change: events.DynamoDBStreamRecord{
			StreamViewType: string(store.Schema().Stream),
			SizeBytes:      int64(store.Size(r.Old) + store.Size(r.New)),
		},
	}
	switch {
	case r.Old == nil:
		out.EventName = string(events.DynamoDBOperationTypeInsert)
	case r.New == nil:
		out.EventName = string(events.DynamoDBOperationTypeRemove)
	}
	if out.Change.Keys, err = ToLambdaItem(r.Key.Item()); err != nil {
		return out, err
	}
	if out.Change.OldImage, err = ToLambdaItem(r.Old); err != nil {
		return out, err
	}
	out.Change.NewImage, err = ToLambdaItem(r.New)
	return out, err
}

// ToLambdaItem converts an item to the form that a Lambda receives. nil stays nil.
func ToLambdaItem(item store.Item) (map[string]events.DynamoDBAttributeValue, error) {
	if item == nil {
		return nil, nil
	}
	out := make(map[string]events.DynamoDBAttributeValue, len(item))
	for name, v := range item {
		converted, err := toLambdaValue(v)
		if err != nil {
			return nil, fmt.Errorf("encode %s of a stream record: %w", name, err)
		}
		out[name] = converted
	}
	return out, nil
}

// toLambdaValue converts a value to the form that a Lambda receives.
func toLambdaValue(v store.Value) (events.DynamoDBAttributeValue, error) {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return events.NewStringAttribute(v.Value), nil
	case *types.AttributeValueMemberN:
		return events.NewNumberAttribute(v.Value), nil
	case *types.AttributeValueMemberB:
		return events.NewBinaryAttribute(v.Value), nil
	case *types.AttributeValueMemberBOOL:
		return events.NewBooleanAttribute(v.Value), nil
	case *types.AttributeValueMemberNULL:
		return events.NewNullAttribute(), nil
	case *types.AttributeValueMemberSS:
		return events.NewStringSetAttribute(v.Value), nil
	case *types.AttributeValueMemberNS:
		return events.NewNumberSetAttribute(v.Value), nil
	case *types.AttributeValueMemberBS:
		return events.NewBinarySetAttribute(v.Value), nil
	case *types.AttributeValueMemberM:
		m, err := ToLambdaItem(v.Value)
		return events.NewMapAttribute(m), err
	case *types.AttributeValueMemberL:
		list := make([]events.DynamoDBAttributeValue, len(v.Value))
		for i, e := range v.Value {
			var err error
			if list[i], err = toLambdaValue(e); err != nil {
				return events.DynamoDBAttributeValue{}, err
			}
		}
		return events.NewListAttribute(list), nil
	}
	return events.DynamoDBAttributeValue{}, fmt.Errorf("stream: unknown type %T of a value", v)
}
