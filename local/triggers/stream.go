package triggers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/core/store/stream"
)

// Feed delivers the changes of the table. The functions NewStreamFeed and NewEngineFeed return one.
type Feed interface {
	// Open returns a Reader of the changes after a position, or of all available changes if the position is empty.
	Open(ctx context.Context, position Position) (Reader, error)
}

// Reader reads a Feed.
type Reader interface {
	// Next returns the next records, at most batchSize, and the position after the last of these records. If there is no
	// record, it waits for one, for at most timeout. After timeout it returns no records. A Reader cannot be used after
	// an error.
	Next(ctx context.Context, timeout time.Duration) ([]events.DynamoDBEventRecord, Position, error)
}

// Position is the sequence number of the last record that a function has handled or skipped, by shard.
type Position map[string]string

// Checkpoints stores positions across restarts, by function. If a position is lost, records are delivered again. If no
// position is stored or readable, Load returns nil or a position before all records.
type Checkpoints interface {
	Load(function string) Position
	Save(function string, p Position)
}

// The parameters for reading a feed.
const (
	// batchSize is the maximum number of records in a call, as streamBatchSize in package infra.
	batchSize = 100
	// idleTimeout is the maximum time for which Next waits for records.
	idleTimeout = time.Hour
	// checkpointInterval is the minimum time between two checkpoints. It limits how many records are delivered again after
	// the process was killed.
	checkpointInterval = time.Second
	// maxAttempts is the maximum number of attempts for a failing record. After that, the record and the rest of its batch
	// are skipped. For operations, the scheduled sweep handles them later.
	maxAttempts = 6
	minBackoff  = 100 * time.Millisecond
	maxBackoff  = 5 * time.Second
	// reopenDelay is the pause before the feed is opened again after an error.
	reopenDelay = 500 * time.Millisecond
)

// follower reads the stream for one function.
type follower struct {
	*Runner
	function Function
	filter   stream.Filter
	position Position
	savedAt  time.Time
	dirty    bool // position has changed since it was saved
}

// followStream calls f with every record that matches pattern, until ctx ends. If pattern is invalid, it calls f with
// every record.
func (r *Runner) followStream(ctx context.Context, f Function, pattern string) {
	filter, err := stream.ParseFilter(pattern)
	if err != nil { // only an invalid declaration in the code causes it
		r.o.Log.ErrorContext(ctx, "the function is called with every record", "function", f.Name, "error", err)
	}
	streamFollower := &follower{Runner: r, function: f, filter: filter, position: r.o.Checkpoints.Load(f.Name)}
	if streamFollower.position == nil {
		streamFollower.position = Position{}
	}
	defer func() { streamFollower.save(true) }()
	for ctx.Err() == nil {
		if err := streamFollower.follow(ctx); err != nil && ctx.Err() == nil {
			r.o.Log.WarnContext(ctx, "the table's stream cannot be read, trying again", "function", f.Name, "error", err)
			sleep(ctx, reopenDelay)
		}
	}
}

// follow calls the function with new records until an error occurs.
func (f *follower) follow(ctx context.Context) error {
	reader, err := f.o.Feed.Open(ctx, f.position)
	if err != nil {
		return err
	}
	for {
		timeout := idleTimeout
		if f.dirty {
			timeout = checkpointInterval
		}
		records, position, err := reader.Next(ctx, timeout)
		if err != nil {
			return err
		}
		if len(records) > 0 {
			if err := f.deliver(ctx, slices.DeleteFunc(records, func(r events.DynamoDBEventRecord) bool {
				return !f.filter.Matches(r)
			})); err != nil {
				return err
			}
			maps.Copy(f.position, position)
			f.dirty = true
		}
		f.save(false)
	}
}

// deliver calls the function with the records until the function has handled all of them. After a failure, it calls the
// function again with the first failed record and all later ones. After maxAttempts failures of the same record, it
// skips the remaining records, because otherwise no later record would be delivered.
func (f *follower) deliver(ctx context.Context, records []events.DynamoDBEventRecord) error {
	backoff := minBackoff
	for attempt := 1; len(records) > 0; attempt++ {
		firstFailed, err := f.call(ctx, records)
		if err == nil && firstFailed == len(records) {
			return nil // even if ctx has ended, so that the position after these records is saved
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if firstFailed > 0 { // the records before the first failed one were handled
			records, attempt, backoff = records[firstFailed:], 1, minBackoff
		}
		if attempt == maxAttempts {
			f.o.Log.ErrorContext(ctx, "records of the stream are given up", "function", f.function.Name,
				"records", len(records), "first", records[0].Change.SequenceNumber, "error", err)
			return nil
		}
		f.o.Log.WarnContext(ctx, "records of the stream come again", "function", f.function.Name, "records", len(records),
			"error", err)
		if !sleep(ctx, backoff) {
			return ctx.Err()
		}
		backoff = min(2*backoff, maxBackoff)
	}
	return nil
}

// call calls the function once. It returns the index of the first record that the function could not handle, or
// len(records) if it handled all.
func (f *follower) call(ctx context.Context, records []events.DynamoDBEventRecord) (int, error) {
	raw, err := f.invoke(ctx, f.function, events.DynamoDBEvent{Records: records})
	if err != nil {
		return 0, err
	}
	var result events.DynamoDBEventResponse
	if err := json.Unmarshal(raw, &result); err != nil {
		return 0, fmt.Errorf("decode the answer: %w", err)
	}
	first := len(records)
	for _, failure := range result.BatchItemFailures {
		i := slices.IndexFunc(records, func(r events.DynamoDBEventRecord) bool {
			return r.Change.SequenceNumber == failure.ItemIdentifier
		})
		first = min(first, max(i, 0)) // as in AWS, an unknown record means that all records failed
	}
	return first, nil
}

// save stores the position if it has changed, but not more often than once per checkpointInterval, unless force is
// true.
func (f *follower) save(force bool) {
	if !f.dirty || !force && time.Since(f.savedAt) < checkpointInterval {
		return
	}
	f.o.Checkpoints.Save(f.function.Name, f.position)
	f.savedAt, f.dirty = time.Now(), false
}
