package triggers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
)

// Stream is what is needed of a client of the streams API.
type Stream interface {
	// ARN names the table's stream.
	ARN(context.Context) (string, error)
	DescribeStream(context.Context, *dynamodbstreams.DescribeStreamInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.DescribeStreamOutput, error)
	GetShardIterator(context.Context, *dynamodbstreams.GetShardIteratorInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetShardIteratorOutput, error)
	GetRecords(context.Context, *dynamodbstreams.GetRecordsInput, ...func(*dynamodbstreams.Options)) (*dynamodbstreams.GetRecordsOutput, error)
}

// Position is the last record that a function has dealt with, by shard.
type Position map[string]string

// Checkpoints keep positions over restarts, by function. A lost one means that
// records are repeated.
type Checkpoints interface {
	Load(function string) Position
	Save(function string, p Position)
}

// How a stream is read.
const (
	// batch is the most records of one call, as the infrastructure has it.
	batch = 100
	// pollInterval is the time between reads of a quiet stream.
	pollInterval = 100 * time.Millisecond
	// checkpointInterval bounds how much is repeated after a kill.
	checkpointInterval = time.Second
	// attempts is how often a batch is tried before it is left to the sweep.
	attempts     = 6
	firstRetry   = 100 * time.Millisecond
	longestRetry = 5 * time.Second
	// reopenInterval is how long a broken connection is left alone.
	reopenInterval = 500 * time.Millisecond
)

// follower reads the stream for one function.
type follower struct {
	*Runner
	function Function
	position Position
	saved    time.Time
	dirty    bool
}

// followStream calls f with every record until ctx ends.
func (r *Runner) followStream(ctx context.Context, f Function) {
	w := &follower{Runner: r, function: f, position: r.o.Checkpoints.Load(f.Name)}
	if w.position == nil {
		w.position = Position{}
	}
	defer func() { w.save(true) }()
	for ctx.Err() == nil {
		if err := w.follow(ctx); err != nil && ctx.Err() == nil {
			r.o.Log.WarnContext(ctx, "the table's stream cannot be read, trying again", "function", f.Name, "error", err)
			pause(ctx, reopenInterval)
		}
	}
}

// follow reads all shards, parents before their children, until an error. An
// open shard has no end, and there is one (design, section 9).
func (w *follower) follow(ctx context.Context) error {
	arn, err := w.o.Stream.ARN(ctx)
	if err != nil {
		return fmt.Errorf("find the stream: %w", err)
	}
	out, err := w.o.Stream.DescribeStream(ctx, &dynamodbstreams.DescribeStreamInput{StreamArn: &arn})
	if err != nil {
		return fmt.Errorf("describe the stream: %w", err)
	}
	if len(out.StreamDescription.Shards) == 0 {
		return errors.New("the stream has no shards")
	}
	for _, shard := range out.StreamDescription.Shards {
		if err := w.readShard(ctx, arn, aws.ToString(shard.ShardId)); err != nil {
			return err
		}
	}
	pause(ctx, pollInterval)
	return nil
}

// readShard reads a shard to its end, or for ever.
func (w *follower) readShard(ctx context.Context, arn, shard string) error {
	iterator, err := w.iterator(ctx, arn, shard)
	if err != nil {
		return err
	}
	for iterator != nil {
		out, err := w.o.Stream.GetRecords(ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: iterator, Limit: aws.Int32(batch)})
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		iterator = out.NextShardIterator
		if len(out.Records) == 0 {
			w.save(false)
			if !pause(ctx, pollInterval) {
				return ctx.Err()
			}
			continue
		}
		if err := w.deliver(ctx, out.Records); err != nil {
			return err
		}
		w.position[shard] = sequence(out.Records[len(out.Records)-1])
		w.dirty = true
		w.save(false)
	}
	return nil
}

// iterator begins after the position, or at the oldest record there is.
func (w *follower) iterator(ctx context.Context, arn, shard string) (*string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &arn, ShardId: &shard, ShardIteratorType: types.ShardIteratorTypeTrimHorizon}
	if after := w.position[shard]; after != "" {
		in.ShardIteratorType, in.SequenceNumber = types.ShardIteratorTypeAfterSequenceNumber, &after
	}
	out, err := w.o.Stream.GetShardIterator(ctx, in)
	if _, trimmed := errors.AsType[*types.TrimmedDataAccessException](err); trimmed {
		delete(w.position, shard) // what is gone is found by the sweep
	}
	if err != nil {
		return nil, fmt.Errorf("find a place in the stream: %w", err)
	}
	return out.ShardIterator, nil
}

// deliver calls the function with the records until it has dealt with all of
// them: those from the first failed one on come again. It gives up on what
// fails too often, since nothing behind it would ever be delivered.
func (w *follower) deliver(ctx context.Context, records []types.Record) error {
	wait := firstRetry
	for attempt := 1; len(records) > 0; attempt++ {
		failed, err := w.call(ctx, records)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && failed == len(records) {
			return nil
		}
		if failed > 0 { // some were dealt with
			records, attempt, wait = records[failed:], 1, firstRetry
		}
		if attempt == attempts {
			w.o.Log.ErrorContext(ctx, "records of the stream are given up", "function", w.function.Name,
				"records", len(records), "first", sequence(records[0]), "error", err)
			return nil
		}
		w.o.Log.WarnContext(ctx, "records of the stream come again", "function", w.function.Name, "records", len(records), "error", err)
		if !pause(ctx, wait) {
			return ctx.Err()
		}
		wait = min(2*wait, longestRetry)
	}
	return nil
}

// call returns the index of the first record that failed, len(records) for none.
func (w *follower) call(ctx context.Context, records []types.Record) (int, error) {
	event, err := streamEvent(records)
	if err != nil {
		return 0, err
	}
	answer, err := w.invoke(ctx, w.function, event)
	if err != nil {
		return 0, err
	}
	var result events.DynamoDBEventResponse
	if err := json.Unmarshal(answer, &result); err != nil {
		return 0, fmt.Errorf("decode the answer: %w", err)
	}
	first := len(records)
	for _, f := range result.BatchItemFailures {
		i := slices.IndexFunc(records, func(r types.Record) bool { return sequence(r) == f.ItemIdentifier })
		first = min(first, max(i, 0)) // an unknown one fails all, as in AWS
	}
	return first, nil
}

func (w *follower) save(now bool) {
	if !w.dirty || !now && time.Since(w.saved) < checkpointInterval {
		return
	}
	w.o.Checkpoints.Save(w.function.Name, w.position)
	w.saved, w.dirty = time.Now(), false
}

func sequence(r types.Record) string {
	if r.Dynamodb == nil {
		return ""
	}
	return aws.ToString(r.Dynamodb.SequenceNumber)
}
