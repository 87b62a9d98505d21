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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/deployments"
	"github.com/gatewright/gatewright/shared/durable"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

// Function declares what calls this function.
var Function = trigger.Function{
	Name: "builder",
	Does: "builds what was uploaded",
	On:   []trigger.Event{{ObjectCreated: blob.UploadKey("")}},
	Uses: []api.Use{
		api.GetItem, api.Query, api.PutItem, api.UpdateItem, api.DeleteItem, api.RootKey,
		api.ReadUpload, api.DeleteUpload, api.ListObjects, api.ReadSource, api.WriteSource, api.WriteArtifact,
	},
	Reach: store.Reach{
		Reads:  []store.Space{"bucket-id", "buckets", "deployment", "metering-bucket", "operation", "root-key", "upload", "variables"},
		Writes: []store.Space{"builds-begun", "deployment", "operation", "upload"},
	},
	Timeout: 5 * time.Minute,
	Heavy:   true,
	// Nothing else tells of an upload.
	Retries: trigger.Retries{Attempts: 2, MaxAge: 6 * time.Hour, Keep: true},
}

// Open makes the function's handler, as lambda.Start takes it.
func Open(p installation.Parts) (any, error) {
	h, err := New(p)
	if err != nil {
		return nil, err
	}
	return probe.Handler(h.Handle, probe.Reads(p.Table.Within(Function.Reach), Function.Reach)), nil
}

// New makes the handler of S3's events alone.
func New(p installation.Parts) (*Handler, error) {
	p.Table = p.Table.Within(Function.Reach)
	engine, err := durable.Engine(p)
	if err != nil {
		return nil, err
	}
	return &Handler{Claims: deployments.Open(p), Engine: engine, Objects: p.Bucket, Log: p.Log}, nil
}

// Claims takes archives that have arrived as beginnings of builds.
type Claims interface {
	Claim(ctx context.Context, a deployments.Arrival) (operationID string, err error)
}

var _ Claims = (*deployments.Service)(nil)

// Engine carries out durable operations.
type Engine interface {
	Run(ctx context.Context, id string) (operation.Record, error)
}

var _ Engine = (*operation.Engine)(nil)

// Objects is the bucket.
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
	Claims  Claims
	Engine  Engine
	Objects Objects
	Log     *slog.Logger
}

// Handle carries out the builds of the objects in an event. An error asks for
// the event again; it may come again anyway.
func (h *Handler) Handle(ctx context.Context, event events.S3Event) error {
	var errs []error
	for _, record := range event.Records {
		if err := h.arrived(ctx, record); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// arrived handles one object.
func (h *Handler) arrived(ctx context.Context, record events.S3EventRecord) error {
	key, err := url.QueryUnescape(record.S3.Object.Key)
	if err != nil {
		return nil //nolint:nilerr // no key of ours, and none the next time
	}
	id, ok := blob.UploadID(key)
	if !ok || !strings.HasPrefix(record.EventName, "ObjectCreated:") {
		return nil
	}
	etag := strings.Trim(record.S3.Object.ETag, `"`)
	operationID, err := h.Claims.Claim(ctx, deployments.Arrival{StatusID: id, ETag: etag, On: record.EventTime})
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

// remove deletes the object that an event tells of. Another one in its place is
// left for its own event: it may be the one that is being built.
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
