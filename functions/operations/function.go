package operations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/rotation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/stream"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/runtime/durable"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// Function declares the events that call the function, and its uses. The uses are those of the tasks of all kinds of
// operations, such as builds that the builder has not completed, redeploys, and cascading deletions of keys. The return
// of quota units that dead gateways have leased also needs some of them.
//
// The stream delivers only records of operations that no worker has leased. Calls for other records would do nothing.
var Function = trigger.Function{
	Name:        "operations",
	Description: "Advances durable operations: builds, redeploys, cascading deletes.",
	Events: []trigger.Event{
		{FromStream: true, FilterPattern: unownedFilter},
		{Schedule: &trigger.Schedule{Name: "sweep", Interval: time.Minute}},
		{Invoked: true}, // by operators, with make operations and make rotate-root-key
	},
	Uses: []api.Use{
		api.GetItem, api.BatchGetItem, api.Query, api.QueryDue, api.PutItem, api.UpdateItem, api.DeleteItem, api.CheckItem,
		api.RootKey,
		api.ReadUpload, api.DeleteUpload, api.ListObjects,
		api.ReadSource, api.WriteSource, api.DeleteSource, api.WriteArtifact, api.DeleteArtifact,
		api.WriteTruststore, api.DeleteTruststore,
		api.ScanTable, api.CreateRootKey, api.ReadArtifact, // a rotation of the root key
	},
	// The table access of the tasks, of the return of leased units, and of EnsureFormat.
	TableAccess: durable.TableAccess().Union(store.TableAccess{
		Reads:  []store.KeyPrefix{"allowance-journal", "artifact-format"},
		Writes: []store.KeyPrefix{"allowance-journal", "artifact-format"},
	}),
	// Enough time to work on several operations for the engine's Slice each, and for the longest step.
	Timeout:    5 * time.Minute,
	HighMemory: true,
	// No retries are needed, because the schedule calls the function within a minute.
	Retries: trigger.Retries{MaxAge: time.Minute},
}

// unownedFilter is the stream's filter for records of operations that no worker has leased.
const unownedFilter = `{"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"operation#"}]}},` +
	`"NewImage":{"lease":{"M":{"owner":{"S":[{"exists":false}]}}}}}}`

// Open creates the function's handler, for lambda.Start.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Restrict(Function.TableAccess)
	engine, err := durable.Engine(p)
	if err != nil {
		return nil, err
	}
	reclaim := func(ctx context.Context) error { return allowance.Reclaim(ctx, p.Table, p.Now()) }
	rebuild := func(ctx context.Context, requested bool) (string, error) {
		return deployments.EnsureFormat(ctx, p.Table, project.WrittenFormat, requested, p.Now())
	}
	return probe.Handler(Handler(Work{engine, durable.Rotation(p), reclaim, rebuild, p.Log}),
		probe.TableCheck(p.Table, Function.TableAccess)), nil
}

// Rotation rotates the root key.
type Rotation interface {
	// Start begins a rotation.
	Start(ctx context.Context, by string) (rotation.Status, error)
	// Status returns the progress of a rotation.
	Status(ctx context.Context) (rotation.Status, error)
}

var _ Rotation = (*rotation.Service)(nil)

// Engine advances operations.
type Engine interface {
	// HandleStream returns the indexes of the records to deliver again.
	HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int)
	// Sweep advances operations that are due.
	Sweep(ctx context.Context) error
	// List returns the operations that have not ended.
	List(ctx context.Context) ([]operation.Record, error)
	// Resume runs an operation immediately.
	Resume(ctx context.Context, id string) (operation.Record, error)
}

var _ Engine = (*operation.Engine)(nil)

// errUnknownEvent is the error for an event that no declaration lists.
var errUnknownEvent = errors.New("operations: the event is neither a batch of the stream, nor a schedule's, nor asks " +
	"to list, to resume or to rebuild, or about the root key")

// event has the fields that distinguish the function's kinds of events.
type event struct {
	Records  []events.DynamoDBEventRecord `json:"Records"`
	Schedule string                       `json:"schedule"`
	// Action is the operator's action. list lists operations, and resume resumes the operation with the ID. rebuild
	// begins to rebuild deployments whose artifact has an older format than this release writes. rotate-root-key begins
	// a rotation of the root key, and root-key returns its progress.
	Action string `json:"do"`
	ID     string `json:"id"`
	// By is the name that the operator has entered.
	By string `json:"by"`
}

// operationList is the response to the actions list, resume and rebuild. For rebuild, it has all operations that have
// not ended.
type operationList struct {
	Operations []operation.Summary `json:"operations"`
}

// Work has the services that the function calls.
type Work struct {
	Engine  Engine
	RootKey Rotation
	// Reclaim returns quota units that dead gateways have leased. Rebuild begins to rebuild deployments whose artifact
	// has an older format, if requested is true or if this release writes a newer format (deployments.EnsureFormat). It
	// returns the operation's id, "" for none.
	Reclaim func(ctx context.Context) error
	Rebuild func(ctx context.Context, requested bool) (id string, err error)
	Log     *slog.Logger
}

// Handler creates the function's handler, for lambda.Start. For a batch of the stream, the handler returns the records
// that failed, so the event source needs ReportBatchItemFailures.
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
		return w.handleAction(ctx, in)
	}
}

// sweep handles the schedule's event. It calls Reclaim first, because Reclaim is quick, and because gateways refuse
// customers whose units are all leased until Reclaim has returned them.
func (w Work) sweep(ctx context.Context) error {
	err := w.Reclaim(ctx)
	_, formatErr := w.Rebuild(ctx, false)
	if err = errors.Join(err, formatErr, w.Engine.Sweep(ctx)); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	return nil
}

// handleAction handles an operator's event.
func (w Work) handleAction(ctx context.Context, in event) (any, error) {
	switch in.Action {
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
		return statusResult(w.RootKey.Start(ctx, in.By))
	case "root-key":
		return statusResult(w.RootKey.Status(ctx))
	}
	return nil, errUnknownEvent
}

// publicError returns the public text of a fault, or the wrapped error for an internal fault and any other error.
func publicError(action string, err error) error {
	if f, ok := errors.AsType[*fault.Fault](err); ok && f.Kind != fault.Internal {
		return errors.New(f.Public)
	}
	return fmt.Errorf("%s: %w", action, err)
}

// statusResult returns the status of a rotation, or publicError for err.
func statusResult(s rotation.Status, err error) (any, error) {
	if err != nil {
		return nil, publicError("rotate the root key", err)
	}
	return s, nil
}

// summaries returns an operationList of records, or publicError for err.
func summaries(records []operation.Record, err error) (any, error) {
	if err != nil {
		return nil, publicError("look operations up", err)
	}
	out := operationList{Operations: make([]operation.Summary, len(records))}
	for i, r := range records {
		out.Operations[i] = r.Summary()
	}
	return out, nil
}
