package stream_test

import (
	"encoding/json"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/stream"
)

// lambdaRecord is a record in the form that a Lambda receives, with a value of each type.
const lambdaRecord = `{
	"eventID": "1", "eventName": "MODIFY", "eventSource": "aws:dynamodb", "awsRegion": "us-east-1",
	"dynamodb": {
		"Keys": {"pk": {"S": "operation#1"}, "sk": {"S": "."}},
		"OldImage": {"pk": {"S": "operation#1"}, "sk": {"S": "."}},
		"NewImage": {
			"pk": {"S": "operation#1"}, "sk": {"S": "."},
			"binary": {"B": "AAE="}, "binaries": {"BS": ["AA==", "AQ=="]}, "bool": {"BOOL": true},
			"list": {"L": [{"N": "1"}, {"M": {"deep": {"S": ""}}}]}, "empty": {"M": {}}, "null": {"NULL": true},
			"number": {"N": "-1.5"}, "numbers": {"NS": ["1", "2"]}, "texts": {"SS": ["a", "b"]}
		},
		"SequenceNumber": "1", "SizeBytes": 1, "StreamViewType": "NEW_AND_OLD_IMAGES"
	}
}`

var (
	oldImage = store.Item{"pk": text("operation#1"), "sk": text(".")}
	newImage = store.Item{
		"pk": text("operation#1"), "sk": text("."),
		"binary":   &types.AttributeValueMemberB{Value: []byte{0, 1}},
		"binaries": &types.AttributeValueMemberBS{Value: [][]byte{{0}, {1}}},
		"bool":     &types.AttributeValueMemberBOOL{Value: true},
		"list": &types.AttributeValueMemberL{Value: []store.Value{
			&types.AttributeValueMemberN{Value: "1"},
			&types.AttributeValueMemberM{Value: store.Item{"deep": text("")}},
		}},
		"empty":   &types.AttributeValueMemberM{Value: store.Item{}},
		"null":    &types.AttributeValueMemberNULL{Value: true},
		"number":  &types.AttributeValueMemberN{Value: "-1.5"},
		"numbers": &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		"texts":   &types.AttributeValueMemberSS{Value: []string{"a", "b"}},
	}
	want = store.StreamRecord{Key: store.Key{PK: "operation#1", SK: "."}, Old: oldImage, New: newImage}

	ignoreUnexported = cmpopts.IgnoreUnexported(
		types.AttributeValueMemberB{}, types.AttributeValueMemberBS{}, types.AttributeValueMemberBOOL{},
		types.AttributeValueMemberL{}, types.AttributeValueMemberM{}, types.AttributeValueMemberNULL{},
		types.AttributeValueMemberN{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberS{},
		types.AttributeValueMemberSS{})
)

func text(s string) store.Value { return &types.AttributeValueMemberS{Value: s} }

func TestFromLambdaConvertsEveryType(t *testing.T) {
	var r events.DynamoDBEventRecord
	if err := json.Unmarshal([]byte(lambdaRecord), &r); err != nil {
		t.Fatal(err)
	}
	got, err := stream.FromLambda(r)
	if err != nil {
		t.Fatalf("FromLambda() of a record with every type = %v, want success", err)
	}
	if diff := cmp.Diff(want, got, ignoreUnexported); diff != "" {
		t.Errorf("FromLambda() of a record with every type (-want +got):\n%s", diff)
	}
}

func TestAbsentImagesAreNil(t *testing.T) {
	keys := map[string]events.DynamoDBAttributeValue{
		"pk": events.NewStringAttribute("p"), "sk": events.NewStringAttribute("s"),
	}
	got, err := stream.FromLambda(events.DynamoDBEventRecord{Change: events.DynamoDBStreamRecord{Keys: keys}})
	if err != nil || got.Old != nil || got.New != nil || got.Key != (store.Key{PK: "p", SK: "s"}) {
		t.Errorf("FromLambda() of a record without images = key %v, old image %t, new image %t, %v, want p s, false, false",
			got.Key, got.Old != nil, got.New != nil, err)
	}
}

func TestRecordWithoutAKeyIsRefused(t *testing.T) {
	half := map[string]events.DynamoDBAttributeValue{"pk": events.NewStringAttribute("p")}
	for name, r := range map[string]events.DynamoDBEventRecord{
		"no key": {}, "half a key": {Change: events.DynamoDBStreamRecord{Keys: half}},
	} {
		if _, err := stream.FromLambda(r); err == nil {
			t.Errorf("FromLambda() with %s succeeds, want an error", name)
		}
	}
}
