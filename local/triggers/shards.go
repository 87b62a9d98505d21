package triggers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"

	"github.com/gatewright/gatewright/shared/store/stream"
)

// Stream is what is needed of a client of the streams API.
type Stream interface {
	// ARN names the table's stream.
	ARN(context.Context) (string, error)
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// Shards is the feed of a DynamoDB stream.
func Shards(s Stream) Feed { return shards{s} }

type shards struct{ stream Stream }

// pollInterval is the time between reads of a quiet stream.
const pollInterval = 100 * time.Millisecond

// shardReader reads all shards, parents before their children. An open shard has
// no end, and there is one (design, section 9).
type shardReader struct {
	stream   Stream
	arn      string
	behind   Position
	ids      []string // of the shards that are left, the one that is read first
	iterator *string  // nil before that one is begun
}

// Open implements Feed.
func (s shards) Open(ctx context.Context, behind Position) (Reader, error) {
	arn, err := s.stream.ARN(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the stream: %w", err)
	}
	out, err := s.stream.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
	if err != nil {
		return nil, fmt.Errorf("describe the stream: %w", err)
	}
	r := &shardReader{stream: s.stream, arn: arn, behind: behind}
	for _, shard := range out.StreamDescription.Shards {
		r.ids = append(r.ids, aws.ToString(shard.ShardId))
	}
	return r, nil
}

var errShardsEnded = errors.New("the stream has no open shard")

// Next implements Reader.
func (r *shardReader) Next(ctx context.Context, patience time.Duration) ([]events.DynamoDBEventRecord, Position, error) {
	for deadline := time.Now().Add(patience); len(r.ids) > 0; {
		if err := r.begin(ctx); err != nil {
			return nil, nil, err
		}
		out, err := r.stream.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: r.iterator, Limit: aws.Int32(batch)})
		if err != nil {
			return nil, nil, fmt.Errorf("read the stream: %w", err)
		}
		shard := r.ids[0]
		if r.iterator = out.NextShardIterator; r.iterator == nil {
			r.ids = r.ids[1:]
		}
		if len(out.Records) > 0 {
			records, err := lambdaRecords(out.Records)
			if err != nil || len(records) == 0 {
				return nil, nil, err
			}
			return records, Position{shard: records[len(records)-1].Change.SequenceNumber}, nil
		}
		if r.iterator != nil && !pause(ctx, pollInterval) {
			return nil, nil, ctx.Err()
		}
		if time.Now().After(deadline) {
			return nil, nil, nil
		}
	}
	return nil, nil, errShardsEnded
}

// begin has an iterator of the first shard, behind the position or at the oldest
// record there is. What is gone is found by the sweep.
func (r *shardReader) begin(ctx context.Context) error {
	if r.iterator != nil {
		return nil
	}
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &r.arn, ShardId: &r.ids[0], ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if after := r.behind[r.ids[0]]; after != "" {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &after
	}
	out, err := r.stream.GetShardIterator(ctx, in)
	if _, trimmed := errors.AsType[*types.TrimmedDataAccessException](err); trimmed {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeTrimHorizon, nil
		out, err = r.stream.GetShardIterator(ctx, in)
	}
	if err != nil {
		return fmt.Errorf("find a place in the stream: %w", err)
	}
	r.iterator = out.ShardIterator
	return nil
}

// lambdaRecords makes of the streams API's records those that a Lambda is called with.
func lambdaRecords(records []types.Record) ([]events.DynamoDBEventRecord, error) {
	out := make([]events.DynamoDBEventRecord, 0, len(records))
	for _, r := range records {
		if r.Dynamodb == nil {
			continue
		}
		record := events.DynamoDBEventRecord{
			AWSRegion:    aws.ToString(r.AwsRegion),
			EventID:      aws.ToString(r.EventID),
			EventName:    string(r.EventName),
			EventSource:  "aws:dynamodb",
			EventVersion: aws.ToString(r.EventVersion),
			Change: events.DynamoDBStreamRecord{
				SequenceNumber: aws.ToString(r.Dynamodb.SequenceNumber),
				SizeBytes:      aws.ToInt64(r.Dynamodb.SizeBytes),
				StreamViewType: string(r.Dynamodb.StreamViewType),
			},
		}
		for to, from := range map[*map[string]events.DynamoDBAttributeValue]map[string]types.AttributeValue{
			&record.Change.Keys: r.Dynamodb.Keys, &record.Change.OldImage: r.Dynamodb.OldImage, &record.Change.NewImage: r.Dynamodb.NewImage,
		} {
			item, err := attributevalue.FromDynamoDBStreamsMap(from)
			if err != nil {
				return nil, fmt.Errorf("decode a record of the stream: %w", err)
			}
			if *to, err = stream.ToLambdaItem(item); err != nil {
				return nil, err
			}
		}
		if at := r.Dynamodb.ApproximateCreationDateTime; at != nil {
			record.Change.ApproximateCreationDateTime = events.SecondsEpochTime{Time: *at}
		}
		out = append(out, record)
	}
	return out, nil
}

// TableStream is the stream of a DynamoDB table.
type TableStream struct {
	*dynamodbstreams.Client
	tables *dynamodb.Client
	table  string
}

var _ Stream = (*TableStream)(nil)

// NewTableStream names the stream of a table at endpoint, "" for AWS.
func NewTableStream(config aws.Config, endpoint, table string) *TableStream {
	s := &TableStream{table: table}
	s.tables = dynamodb.NewFromConfig(config, func(o *dynamodb.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	s.Client = dynamodbstreams.NewFromConfig(config, func(o *dynamodbstreams.Options) {
		if endpoint != "" {
			o.BaseEndpoint = aws.String(endpoint)
		}
	})
	return s
}

// ARN implements Stream.
func (s *TableStream) ARN(ctx context.Context) (string, error) {
	out, err := s.tables.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &s.table})
	if err != nil {
		return "", fmt.Errorf("describe the table: %w", err)
	}
	if out.Table == nil || out.Table.LatestStreamArn == nil {
		return "", errors.New("the table has no stream")
	}
	return *out.Table.LatestStreamArn, nil
}
