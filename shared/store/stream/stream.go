// Package stream turns the records of the table's stream, as a Lambda is
// handed them or as the streams API gives them, into store.StreamRecord.
//
// What it is not: it reads no stream. Who is called with a batch of records,
// or polls for one, converts them here and acts on what they say.
//
// Read this file first; lambda.go has the values of Lambda's events. The
// stream's kind (old and new images) is declared in store.Schema.
package stream

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/gatewright/gatewright/shared/store"
)

// FromStreams converts a record of the streams API.
func FromStreams(r types.Record) (store.StreamRecord, error) {
	if r.Dynamodb == nil {
		return store.StreamRecord{}, errNoKey
	}
	return record(r.Dynamodb.Keys, r.Dynamodb.OldImage, r.Dynamodb.NewImage,
		func(v types.AttributeValue) (store.Value, error) { return attributevalue.FromDynamoDBStreams(v) })
}

var errNoKey = errors.New("stream: a record without a key")

// record converts the three items of a change, value by value.
func record[V any](keys, before, after map[string]V, convert func(V) (store.Value, error)) (store.StreamRecord, error) {
	items := [3]store.Item{}
	for i, from := range []map[string]V{keys, before, after} {
		for name, v := range from {
			value, err := convert(v)
			if err != nil {
				return store.StreamRecord{}, fmt.Errorf("decode %s of a stream record: %w", name, err)
			}
			if items[i] == nil {
				items[i] = make(store.Item, len(from))
			}
			items[i][name] = value
		}
	}
	out := store.StreamRecord{Key: store.KeyOf(items[0]), Old: items[1], New: items[2]}
	if out.Key.PK == "" || out.Key.SK == "" {
		return store.StreamRecord{}, errNoKey
	}
	return out, nil
}
