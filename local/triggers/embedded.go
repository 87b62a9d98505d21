package triggers

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/store/embedded"
	"github.com/gatewright/gatewright/shared/store/stream"
)

// Embedded is the feed of the embedded engine.
func Embedded(engine *embedded.Backend) Feed { return engineFeed{engine} }

type engineFeed struct{ engine *embedded.Backend }

// only is the name of an engine's one shard.
const only = "embedded"

// Open implements Feed. A position that is no number counts as none.
func (f engineFeed) Open(_ context.Context, behind Position) (Reader, error) {
	after, _ := strconv.ParseUint(behind[only], 10, 64)
	return &engineReader{f.engine, after}, nil
}

type engineReader struct {
	engine *embedded.Backend
	after  uint64
}

// Next implements Reader.
func (r *engineReader) Next(ctx context.Context, patience time.Duration) ([]events.DynamoDBEventRecord, Position, error) {
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	changes, err := r.engine.Changes(waiting, r.after, batch)
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
		out[i].Change.ApproximateCreationDateTime = events.SecondsEpochTime{Time: c.On.Truncate(time.Second)}
	}
	r.after = changes[len(changes)-1].Seq
	return out, Position{only: strconv.FormatUint(r.after, 10)}, nil
}

// InEngine keeps checkpoints in the engine itself, so that they go with its
// files.
func InEngine(engine *embedded.Backend, log *slog.Logger) Checkpoints { return marks{engine, log} }

type marks struct {
	engine *embedded.Backend
	log    *slog.Logger
}

// Load implements Checkpoints.
func (m marks) Load(function string) Position {
	seq, err := m.engine.Mark(function)
	if err != nil {
		m.log.Warn("the position in the table's changes cannot be read", "error", err)
		return nil
	}
	return Position{only: strconv.FormatUint(seq, 10)}
}

// Save implements Checkpoints.
func (m marks) Save(function string, p Position) {
	seq, err := strconv.ParseUint(p[only], 10, 64)
	if err == nil {
		err = m.engine.SetMark(function, seq)
	}
	if err != nil {
		m.log.Warn("the position in the table's changes cannot be saved", "error", err)
	}
}
