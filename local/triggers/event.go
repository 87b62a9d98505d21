package triggers

import (
	"fmt"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// streamEvent makes the Lambda event of records of the stream.
func streamEvent(records []types.Record) (events.DynamoDBEvent, error) {
	out := events.DynamoDBEvent{Records: make([]events.DynamoDBEventRecord, 0, len(records))}
	for _, r := range records {
		if r.Dynamodb == nil {
			continue
		}
		keys, err := attributes(r.Dynamodb.Keys)
		if err != nil {
			return out, err
		}
		before, err := attributes(r.Dynamodb.OldImage)
		if err != nil {
			return out, err
		}
		after, err := attributes(r.Dynamodb.NewImage)
		if err != nil {
			return out, err
		}
		record := events.DynamoDBEventRecord{
			AWSRegion:    aws.ToString(r.AwsRegion),
			EventID:      aws.ToString(r.EventID),
			EventName:    string(r.EventName),
			EventSource:  "aws:dynamodb",
			EventVersion: aws.ToString(r.EventVersion),
			Change: events.DynamoDBStreamRecord{
				Keys: keys, OldImage: before, NewImage: after,
				SequenceNumber: aws.ToString(r.Dynamodb.SequenceNumber),
				SizeBytes:      aws.ToInt64(r.Dynamodb.SizeBytes),
				StreamViewType: string(r.Dynamodb.StreamViewType),
			},
		}
		if at := r.Dynamodb.ApproximateCreationDateTime; at != nil {
			record.Change.ApproximateCreationDateTime = events.SecondsEpochTime{Time: *at}
		}
		out.Records = append(out.Records, record)
	}
	return out, nil
}

func attributes(in map[string]types.AttributeValue) (map[string]events.DynamoDBAttributeValue, error) {
	if in == nil {
		return nil, nil
	}
	out := make(map[string]events.DynamoDBAttributeValue, len(in))
	for name, value := range in {
		converted, err := attribute(value)
		if err != nil {
			return nil, err
		}
		out[name] = converted
	}
	return out, nil
}

func attribute(v types.AttributeValue) (events.DynamoDBAttributeValue, error) {
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
		m, err := attributes(v.Value)
		return events.NewMapAttribute(m), err
	case *types.AttributeValueMemberL:
		list := make([]events.DynamoDBAttributeValue, 0, len(v.Value))
		for _, element := range v.Value {
			converted, err := attribute(element)
			if err != nil {
				return events.DynamoDBAttributeValue{}, err
			}
			list = append(list, converted)
		}
		return events.NewListAttribute(list), nil
	}
	return events.DynamoDBAttributeValue{}, fmt.Errorf("a record of the stream has an attribute of the unknown type %T", v)
}
