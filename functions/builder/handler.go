package builder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/deployments"
	"github.com/gatewright/gatewright/shared/runtime/durable"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// Function declares the events that call this function.
var Function = trigger.Function{
	Name:        "builder",
	Description: "builds what was uploaded",
	Events:      []trigger.Event{{ObjectCreated: blob.UploadKey("")}},
	Uses: []api.Use{
		api.GetItem, api.Query, api.PutItem, api.UpdateItem, api.DeleteItem, api.RootKey,
		api.ReadUpload, api.DeleteUpload, api.ListObjects, api.ReadSource, api.WriteSource, api.WriteArtifact,
	},
	TableAccess: store.TableAccess{
		Reads: []store.KeyPrefix{
			"bucket-id", "buckets", "deployment", "metering-bucket", "operation", "root-key", "upload",
			"variables",
		},
		Writes: []store.KeyPrefix{"builds-begun", "deployment", "operation", "upload"},
	},
	Timeout:    5 * time.Minute,
	HighMemory: true,
	// Retry for a long time, because no other event reports the upload.
	Retries: trigger.Retries{MaxRetries: 2, MaxAge: 6 * time.Hour, DeadLetter: true},
}

// Open creates the function's handler, for lambda.Start.
func Open(p installation.Parts) (any, error) {
	h, err := New(p)
	if err != nil {
		return nil, err
	}
	return probe.Handler(h.Handle, probe.TableCheck(p.Table.Restrict(Function.TableAccess), Function.TableAccess)), nil
}

// New creates the handler for S3's events. It does not handle the event that probes a release. The handler of Open
// does.
func New(p installation.Parts) (*Handler, error) {
	p.Table = p.Table.Restrict(Function.TableAccess)
	engine, err := durable.Engine(p)
	if err != nil {
		return nil, err
	}
	return &Handler{Claimer: deployments.Open(p), Engine: engine, Objects: p.Bucket, Log: p.Log}, nil
}

// Claimer begins the build of an uploaded archive.
type Claimer interface {
	Claim(ctx context.Context, a deployments.Arrival) (operationID string, err error)
}

var _ Claimer = (*deployments.Service)(nil)

// Engine runs durable operations.
type Engine interface {
	Run(ctx context.Context, id string) (operation.Record, error)
}

var _ Engine = (*operation.Engine)(nil)

// Objects reads and deletes objects in the bucket.
type Objects interface {
	Head(ctx context.Context, key string) (blob.Object, error)
	Delete(ctx context.Context, key string) error
}

var (
	_ Objects = (*blob.Bucket)(nil)
	_ Objects = (*blob.Memory)(nil)
)

// Handler handles S3's events. It is safe for concurrent use.
type Handler struct {
	Claimer Claimer
	Engine  Engine
	Objects Objects
	Log     *slog.Logger
}

// Handle runs the builds of the objects in an event. After an error, Lambda repeats the event. S3 can also deliver an
// event twice.
func (h *Handler) Handle(ctx context.Context, event events.S3Event) error {
	var errs []error
	for _, record := range event.Records {
		if err := h.handleObject(ctx, record); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// handleObject runs the build of one object. It deletes the object when the build has ended, or if the object belongs
// to no open upload. If the build has to wait, functions/operations continues it. handleObject ignores an object that
// is not an upload.
func (h *Handler) handleObject(ctx context.Context, record events.S3EventRecord) error {
	key, err := url.QueryUnescape(record.S3.Object.Key)
	if err != nil {
		return nil //nolint:nilerr // the object is not an upload, so a retry would not help
	}
	id, ok := blob.UploadID(key)
	if !ok || !strings.HasPrefix(record.EventName, "ObjectCreated:") {
		return nil
	}
	etag := strings.Trim(record.S3.Object.ETag, `"`)
	operationID, err := h.Claimer.Claim(ctx, deployments.Arrival{StatusID: id, ETag: etag, UploadedOn: record.EventTime})
	if errors.Is(err, deployments.ErrUnclaimed) {
		h.Log.InfoContext(ctx, "an object that belongs to no open upload is removed", "upload", id)
		return h.remove(ctx, key, etag)
	}
	if err != nil {
		return fmt.Errorf("claim upload %s: %w", id, err)
	}
	r, err := h.Engine.Run(ctx, operationID)
	if err != nil {
		return fmt.Errorf("build upload %s: %w", id, err)
	}
	if r.Ended() {
		return h.remove(ctx, key, etag)
	}
	return nil
}

// remove deletes the object of an event. If there is a newer object with the same key, remove keeps it, because it has
// its own event and a build may be reading it.
func (h *Handler) remove(ctx context.Context, key, etag string) error {
	o, err := h.Objects.Head(ctx, key)
	if errors.Is(err, blob.ErrNotFound) || err == nil && o.ETag != etag {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at an upload: %w", err)
	}
	if err := h.Objects.Delete(ctx, key); err != nil {
		return fmt.Errorf("remove an upload: %w", err)
	}
	return nil
}
