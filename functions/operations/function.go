package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/rotation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/stream"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

// Function declares what calls the function, and what it and the tasks of all
// kinds of operations use: a build that the builder left (whole, from the upload
// on) or that is a redeploy, the cleaning of the bucket, the cascades of keys, the
// deletion of projects, truststores, the services of tunnels; and what gives back what
// gateways that are gone had leased of quotas.
//
// Of the stream it needs only operations that nobody works on: the others'
// records would be calls for nothing.
var Function = trigger.Function{
	Name: "operations",
	Does: "Advances durable operations: builds, redeploys, cascading deletes.",
	On: []trigger.Event{
		{StreamRecords: true, FilterPattern: unowned},
		{Schedule: &trigger.Schedule{Name: "sweep", Every: time.Minute}},
		{Invoked: true}, // by who runs the installation: make operations, make rotate-root-key
	},
	Uses: []api.Use{
		api.GetItem, api.BatchGetItem, api.Query, api.QueryDue, api.PutItem, api.UpdateItem, api.DeleteItem, api.CheckItem, api.RootKey,
		api.ReadUpload, api.DeleteUpload, api.ListObjects,
		api.ReadSource, api.WriteSource, api.DeleteSource, api.WriteArtifact, api.DeleteArtifact,
		api.WriteTruststore, api.DeleteTruststore,
		api.ScanTable, api.MakeRootKey, api.ReadArtifact, // a rotation of the root key
	},
	// What the tasks reach, and what gives back what was leased and notes the format of artifacts.
	Reach: durable.Reach().And(store.Reach{
		Reads: []store.Space{"allowance-journal", "artifact-format"}, Writes: []store.Space{"allowance-journal", "artifact-format"},
	}),
	// Several slices of an engine, and the longest step.
	Timeout: 5 * time.Minute,
	Heavy:   true,
	// The next sweep does the same, within a minute.
	Retries: trigger.Retries{MaxAge: time.Minute},
}

// unowned matches records of operations that no worker has.
const unowned = `{"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"operation#"}]}},"NewImage":{"lease":{"M":{"owner":{"S":[{"exists":false}]}}}}}}`

// Open makes the function's handler, as lambda.Start takes it.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Within(Function.Reach)
	engine, err := durable.Engine(p)
	if err != nil {
		return nil, err
	}
	reclaim := func(ctx context.Context) error { return allowance.Reclaim(ctx, p.Table, p.Now()) }
	rebuild := func(ctx context.Context, asked bool) (string, error) {
		return deployments.KeepFormat(ctx, p.Table, project.WrittenFormat, asked, p.Now())
	}
	return probe.Handler(Handler(Work{engine, durable.Rotation(p), reclaim, rebuild, p.Log}), probe.Reads(p.Table, Function.Reach)), nil
}

// Rotation rotates the root key.
type Rotation interface {
	// Start begins a rotation.
	Start(ctx context.Context, by string) (rotation.Status, error)
	// Status says how far one is.
	Status(ctx context.Context) (rotation.Status, error)
}

var _ Rotation = (*rotation.Service)(nil)

// Engine advances operations.
type Engine interface {
	// HandleStream answers the indexes of the records to deliver again.
	HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int)
	// Sweep advances what is due.
	Sweep(ctx context.Context) error
	// List gives the operations that have not ended.
	List(ctx context.Context) ([]operation.Record, error)
	// Resume has one tried at once.
	Resume(ctx context.Context, id string) (operation.Record, error)
}

var _ Engine = (*operation.Engine)(nil)

// errUnknownEvent is the answer to an event that nothing declared sends.
var errUnknownEvent = errors.New("operations: the event is neither a batch of the stream, nor a schedule's, nor asks to list, to resume or to rebuild, or about the root key")

// event has the fields that tell the function's kinds of event apart.
type event struct {
	Records  []events.DynamoDBEventRecord `json:"Records"`
	Schedule string                       `json:"schedule"`
	// Do is what who invokes the function wants: list, resume the operation ID, or rebuild what has an artifact of
	// an older format than this release writes; rotate-root-key, or root-key, how far that is.
	Do string `json:"do"`
	ID string `json:"id"`
	// By is who wants it, as they say.
	By string `json:"by"`
}

// listed is the answer to who invokes the function.
type listed struct {
	Operations []operation.Summary `json:"operations"`
}

// Work is what the function has done.
type Work struct {
	Engine  Engine
	RootKey Rotation
	// Reclaim gives back what gateways that are gone had leased, and Rebuild begins to build anew what has an artifact of an older
	// format: when somebody asked for it, or when a release is new (deployments.KeepFormat). It gives the operation's id.
	Reclaim func(ctx context.Context) error
	Rebuild func(ctx context.Context, asked bool) (id string, err error)
	Log     *slog.Logger
}

// Handler makes the function's handler, as lambda.Start takes it. To a batch of
// the stream it answers which records failed; the event source has to be set
// up for that (ReportBatchItemFailures).
func Handler(w Work) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, payload json.RawMessage) (any, error) {
		var in event
		if err := json.Unmarshal(payload, &in); err != nil {
			return nil, fmt.Errorf("decode the event: %w", err)
		}
		switch {
		case in.Records != nil:
			return stream.Handle(ctx, w.Log, in.Records, w.Engine.HandleStream), nil
		case in.Schedule != "":
			return nil, w.sweep(ctx)
		}
		return w.do(ctx, in)
	}
}

// sweep is the schedule's. It reclaims first: that is quick, and what waits for it are customers that are refused.
func (w Work) sweep(ctx context.Context) error {
	err := w.Reclaim(ctx)
	_, formatErr := w.Rebuild(ctx, false)
	if err = errors.Join(err, formatErr, w.Engine.Sweep(ctx)); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// do is for whoever invokes the function.
func (w Work) do(ctx context.Context, in event) (any, error) {
	switch in.Do {
	case "list":
		return summaries(w.Engine.List(ctx))
	case "resume":
		r, err := w.Engine.Resume(ctx, in.ID)
		return summaries([]operation.Record{r}, err)
	case "rebuild":
		if _, err := w.Rebuild(ctx, true); err != nil {
			return nil, fmt.Errorf("begin to rebuild: %w", err)
		}
		return summaries(w.Engine.List(ctx))
	case "rotate-root-key":
		return told(w.RootKey.Start(ctx, in.By))
	case "root-key":
		return told(w.RootKey.Status(ctx))
	}
	return nil, errUnknownEvent
}

// public is what is public of an error.
func public(doing string, err error) error {
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind != fault.Internal {
		return errors.New(f.Public)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// told answers how far a rotation is, or what is public of an error.
func told(s rotation.Status, err error) (any, error) {
	if err != nil {
		return nil, public("rotate the root key", err)
	}
	return s, nil
}

// summaries answers operations, or what is public of an error.
func summaries(found []operation.Record, err error) (any, error) {
	if err != nil {
		return nil, public("look operations up", err)
	}
	out := listed{Operations: make([]operation.Summary, len(found))}
	for i, r := range found {
		out.Operations[i] = r.Summary()
	}
	return out, nil
}
