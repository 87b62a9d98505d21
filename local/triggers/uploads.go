package triggers

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/core/blob"
)

// Objects lists the bucket; *blob.Bucket implements it.
type Objects interface {
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
}

var _ Objects = (*blob.Bucket)(nil)

// The parameters for handling uploads.
const (
	uploadWorkers   = 2
	uploadQueueSize = 1024
	// lostUploadInterval is the time between two searches for uploads whose event
	// was lost: an event is sent only once, even if this process does not run.
	lostUploadInterval = time.Minute
	// uploadPollInterval is the time between two searches if the bucket sends no events.
	uploadPollInterval = time.Second
	// uploadAttempts is 3 as in AWS, which retries a failed
	// asynchronous call twice. uploadRetryDelay is shorter than in AWS.
	uploadAttempts   = 3
	uploadRetryDelay = 2 * time.Second
)

// upload is a call of a function for an uploaded object.
type upload struct {
	function Function
	event    events.S3Event
}

// QueueEvent queues calls of the functions for the objects in event. It does not wait for the calls.
func (r *Runner) QueueEvent(event events.S3Event) {
	for _, record := range event.Records {
		key, err := url.QueryUnescape(record.S3.Object.Key)
		if err != nil {
			continue
		}
		for _, f := range r.o.Functions {
			for _, e := range f.Events {
				if e.ObjectCreated != "" && strings.HasPrefix(key, e.ObjectCreated) {
					r.enqueue(upload{f, events.S3Event{Records: []events.S3EventRecord{record}}})
				}
			}
		}
	}
}

// QueueObject queues calls of the functions for an object, as QueueEvent does.
func (r *Runner) QueueObject(o blob.Object) { r.QueueEvent(uploadEvent(o)) }

// enqueue adds an upload to the queue. If the queue is full, it drops the upload, which findLostUploads finds later.
func (r *Runner) enqueue(u upload) {
	select {
	case r.uploads <- u:
	default:
		r.o.Log.Warn("too many uploads at once, some are handled later", "function", u.function.Name)
	}
}

// handleUploads handles queued uploads until ctx ends.
func (r *Runner) handleUploads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case u := <-r.uploads:
			r.handle(ctx, u)
		}
	}
}

// handle calls the function until a call succeeds, but at most uploadAttempts times.
func (r *Runner) handle(ctx context.Context, u upload) {
	for attempt := 1; ; attempt++ {
		_, err := r.invoke(ctx, u.function, u.event)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.o.Log.ErrorContext(ctx, "upload was not handled", "function", u.function.Name, "attempt", attempt, "error", err)
		if attempt == uploadAttempts || !sleep(ctx, uploadRetryDelay) {
			return
		}
	}
}

// findLostUploads calls f for objects whose event may be lost. At first, it calls f for all existing objects. Later, it
// calls f for objects that the previous list already contained, because the events of newer objects may still arrive.
// If the bucket sends no events, it calls f for each new object. It handles an object with the same key and ETag only
// once, even if the calls for it failed.
func (r *Runner) findLostUploads(ctx context.Context, f Function, prefix string) {
	interval := lostUploadInterval
	if r.o.PollUploads {
		interval = uploadPollInterval
	}
	seen := make(map[string]bool) // key and ETag → whether f was called
	for first := true; ; first = false {
		listed := make(map[string]bool)
		for object, err := range r.o.Objects.List(ctx, prefix) {
			if err != nil {
				if ctx.Err() == nil {
					r.o.Log.WarnContext(ctx, "uploads cannot be listed, trying again later", "error", err)
				}
				listed = seen
				break
			}
			id := object.Key + "\n" + object.ETag
			handled, known := seen[id]
			if !handled && (first || known || r.o.PollUploads) {
				r.handle(ctx, upload{f, uploadEvent(object)})
				handled = true
			}
			listed[id] = handled
		}
		seen = listed
		if !sleep(ctx, interval) {
			return
		}
	}
}

// uploadEvent returns the event that S3 sends for a created object.
func uploadEvent(o blob.Object) events.S3Event {
	return events.S3Event{Records: []events.S3EventRecord{{
		EventVersion: "2.1",
		EventSource:  "aws:s3",
		EventTime:    o.Modified,
		EventName:    "ObjectCreated:Put",
		S3: events.S3Entity{
			SchemaVersion: "1.0",
			Object:        events.S3Object{Key: url.QueryEscape(o.Key), Size: o.Size, ETag: o.ETag},
		},
	}}}
}
