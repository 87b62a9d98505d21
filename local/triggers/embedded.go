package triggers

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/core/store/stream"
)

// NewEngineFeed returns the feed of the embedded engine.
func NewEngineFeed(engine *embedded.Backend) Feed { return engineFeed{engine} }

type engineFeed struct{ engine *embedded.Backend }

// shardName is the name of an engine's only shard.
const shardName = "embedded"

// Open implements Feed. A position that is not a number is treated as missing.
func (f engineFeed) Open(_ context.Context, position Position) (Reader, error) {
	after, _ := strconv.ParseUint(position[shardName], 10, 64)
	return &engineReader{f.engine, after}, nil
}

type engineReader struct {
	engine *embedded.Backend
	after  uint64
}

// Next implements Reader.
func (r *engineReader) Next(
	ctx context.Context, timeout time.Duration,
) ([]events.DynamoDBEventRecord, Position, error) {
	waitCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changes, err := r.engine.Changes(waitCtx, r.after, batchSize)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return nil, nil, nil
		}
		return nil, nil, err
	}
	out := make([]events.DynamoDBEventRecord, len(changes))
	for i, c := range changes {
		if out[i], err = stream.ToLambda(c.StreamRecord); err != nil {
			return nil, nil, err
		}
		number := strconv.FormatUint(c.Seq, 10)
		out[i].EventID, out[i].Change.SequenceNumber = number, number
		out[i].Change.ApproximateCreationDateTime = events.SecondsEpochTime{Time: c.Time.Truncate(time.Second)}
	}
	r.after = changes[len(changes)-1].Seq
	return out, Position{shardName: strconv.FormatUint(r.after, 10)}, nil
}

// NewEngineCheckpoints returns checkpoints that are stored in the engine
// itself, so that a copy of the engine's files contains them.
func NewEngineCheckpoints(engine *embedded.Backend, log *slog.Logger) Checkpoints {
	return engineCheckpoints{engine, log}
}

type engineCheckpoints struct {
	engine *embedded.Backend
	log    *slog.Logger
}

// Load implements Checkpoints.
func (e engineCheckpoints) Load(function string) Position {
	seq, err := e.engine.Mark(function)
	if err != nil {
		e.log.Warn("the position in the table's changes cannot be read", "error", err)
		return nil
	}
	return Position{shardName: strconv.FormatUint(seq, 10)}
}

// Save implements Checkpoints.
func (e engineCheckpoints) Save(function string, p Position) {
	seq, err := strconv.ParseUint(p[shardName], 10, 64)
	if err == nil {
		err = e.engine.SetMark(function, seq)
	}
	if err != nil {
		e.log.Warn("the position in the table's changes cannot be saved", "error", err)
	}
}
