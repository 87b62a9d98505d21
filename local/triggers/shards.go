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

	"github.com/gatewright/gatewright/shared/core/store/stream"
)

// Stream is the part of the streams API's client that this package uses.
type Stream interface {
	// ARN returns the ARN of the table's stream.
	ARN(context.Context) (string, error)
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput,
		...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// NewStreamFeed returns the feed of a DynamoDB stream.
func NewStreamFeed(s Stream) Feed { return shardFeed{s} }

type shardFeed struct{ stream Stream }

// pollInterval is the time between reads of an idle stream.
const pollInterval = 100 * time.Millisecond

// shardReader reads the shards one after the other, in the order of DescribeStream: parents before their children. It
// assumes that only the last shard is open, as in the emulator: it never reads beyond an open shard.
type shardReader struct {
	stream   Stream
	arn      string
	position Position
	ids      []string // the IDs of the shards that are not read to their end; the first is the current shard
	iterator *string  // nil if reading of the current shard has not begun
}

// Open implements Feed.
func (s shardFeed) Open(ctx context.Context, position Position) (Reader, error) {
	arn, err := s.stream.ARN(ctx)
	if err != nil {
		return nil, fmt.Errorf("find the stream: %w", err)
	}
	out, err := s.stream.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
	if err != nil {
		return nil, fmt.Errorf("describe the stream: %w", err)
	}
	r := &shardReader{stream: s.stream, arn: arn, position: position}
	for _, shard := range out.StreamDescription.Shards {
		r.ids = append(r.ids, aws.ToString(shard.ShardId))
	}
	return r, nil
}

var errNoOpenShard = errors.New("the stream has no open shard")

// Next implements Reader.
func (r *shardReader) Next(ctx context.Context, timeout time.Duration) ([]events.DynamoDBEventRecord, Position, error) {
	for deadline := time.Now().Add(timeout); len(r.ids) > 0; {
		if err := r.openIterator(ctx); err != nil {
			return nil, nil, err
		}
		out, err := r.stream.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{
			ShardIterator: r.iterator,
			Limit:         aws.Int32(batchSize),
		})
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
		if r.iterator != nil && !sleep(ctx, pollInterval) {
			return nil, nil, ctx.Err()
		}
		if time.Now().After(deadline) {
			return nil, nil, nil
		}
	}
	return nil, nil, errNoOpenShard
}

// openIterator gets an iterator of the current shard, unless there is one. The iterator begins after the position. If
// there is no position, or if its record no longer exists, the iterator begins at the oldest record. The scheduled
// sweep handles the operations of lost records.
func (r *shardReader) openIterator(ctx context.Context) error {
	if r.iterator != nil {
		return nil
	}
	in := &dynamodbstreams.GetShardIteratorInput{
		StreamArn: &r.arn, ShardId: &r.ids[0],
		ShardIteratorType: types.ShardIteratorTypeTrimHorizon,
	}
	if after := r.position[r.ids[0]]; after != "" {
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

// lambdaRecords converts records of the streams API to records of Lambda events.
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
		for dst, src := range map[*map[string]events.DynamoDBAttributeValue]map[string]types.AttributeValue{
			&record.Change.Keys: r.Dynamodb.Keys, &record.Change.OldImage: r.Dynamodb.OldImage,
			&record.Change.NewImage: r.Dynamodb.NewImage,
		} {
			item, err := attributevalue.FromDynamoDBStreamsMap(src)
			if err != nil {
				return nil, fmt.Errorf("decode a record of the stream: %w", err)
			}
			if *dst, err = stream.ToLambdaItem(item); err != nil {
				return nil, err
			}
		}
		if createdAt := r.Dynamodb.ApproximateCreationDateTime; createdAt != nil {
			record.Change.ApproximateCreationDateTime = events.SecondsEpochTime{Time: *createdAt}
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

// NewTableStream returns the stream of a table at endpoint. endpoint is "" for AWS.
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
