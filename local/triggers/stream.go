package triggers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/aws/aws-lambda-go/events"
)

// Feed tells the changes of the table: Shards and Embedded are two.
type Feed interface {
	// Open begins behind a position, or at the oldest change that is kept.
	Open(ctx context.Context, behind Position) (Reader, error)
}

// Reader goes through a Feed.
type Reader interface {
	// Next gives the next records, at most batch, and the position behind the last of
	// them. It waits for one as long as patience says, and gives none then. After
	// an error the Reader is of no use any more.
	Next(ctx context.Context, patience time.Duration) ([]events.DynamoDBEventRecord, Position, error)
}

// Position is the last record that a function has dealt with, by shard.
type Position map[string]string

// Checkpoints keep positions over restarts, by function. A lost one means that
// records are repeated.
type Checkpoints interface {
	Load(function string) Position
	Save(function string, p Position)
}

// How a feed is read.
const (
	// batch is the most records of one call, as the infrastructure has it.
	batch = 100
	// quiet is how long nothing may come before it is asked for again.
	quiet = time.Hour
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
	wanted   filter
	position Position
	saved    time.Time
	dirty    bool
}

// followStream calls f with every record that matches a pattern until ctx ends.
func (r *Runner) followStream(ctx context.Context, f Function, pattern string) {
	wanted, err := filterOf(pattern)
	if err != nil { // only a change of the code can bring it about
		r.o.Log.ErrorContext(ctx, "the function is called with every record", "function", f.Name, "error", err)
	}
	w := &follower{Runner: r, function: f, wanted: wanted, position: r.o.Checkpoints.Load(f.Name)}
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

// follow calls the function with what comes until an error.
func (w *follower) follow(ctx context.Context) error {
	reader, err := w.o.Feed.Open(ctx, w.position)
	if err != nil {
		return err
	}
	for {
		patience := quiet
		if w.dirty {
			patience = checkpointInterval
		}
		records, behind, err := reader.Next(ctx, patience)
		if err != nil {
			return err
		}
		if len(records) > 0 {
			if err := w.deliver(ctx, w.wanted.of(records)); err != nil {
				return err
			}
			maps.Copy(w.position, behind)
			w.dirty = true
		}
		w.save(false)
	}
}

// deliver calls the function with the records until it has dealt with all of
// them: those from the first failed one on come again. It gives up on what
// fails too often, since nothing behind it would ever be delivered.
func (w *follower) deliver(ctx context.Context, records []events.DynamoDBEventRecord) error {
	wait := firstRetry
	for attempt := 1; len(records) > 0; attempt++ {
		failed, err := w.call(ctx, records)
		if err == nil && failed == len(records) {
			return nil // also if ctx has ended meanwhile, so that the position after these records is saved
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed > 0 { // some were dealt with
			records, attempt, wait = records[failed:], 1, firstRetry
		}
		if attempt == attempts {
			w.o.Log.ErrorContext(ctx, "records of the stream are given up", "function", w.function.Name,
				"records", len(records), "first", records[0].Change.SequenceNumber, "error", err)
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
func (w *follower) call(ctx context.Context, records []events.DynamoDBEventRecord) (int, error) {
	answer, err := w.invoke(ctx, w.function, events.DynamoDBEvent{Records: records})
	if err != nil {
		return 0, err
	}
	var result events.DynamoDBEventResponse
	if err := json.Unmarshal(answer, &result); err != nil {
		return 0, fmt.Errorf("decode the answer: %w", err)
	}
	first := len(records)
	for _, f := range result.BatchItemFailures {
		i := slices.IndexFunc(records, func(r events.DynamoDBEventRecord) bool { return r.Change.SequenceNumber == f.ItemIdentifier })
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
