package triggers

import (
	"context"
	"iter"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/blob"
)

// Objects lists the bucket; blob.Bucket does.
type Objects interface {
	List(ctx context.Context, prefix string) iter.Seq2[blob.Object, error]
}

var _ Objects = (*blob.Bucket)(nil)

// How uploads are handled.
const (
	parallelUploads = 2
	queuedUploads   = 1024
	// catchUpInterval is the time between looks for uploads whose event got
	// lost: the event is sent once, whether or not this process is there.
	catchUpInterval = time.Minute
	// polledInterval is that time where no events come at all.
	polledInterval = time.Second
	// uploadAttempts and uploadRetry are AWS's: two more tries of an
	// asynchronous call that failed, but sooner.
	uploadAttempts = 3
	uploadRetry    = 2 * time.Second
)

type upload struct {
	function Function
	event    events.S3Event
}

// ObjectCreated calls the functions that are called for the objects in event. It
// returns at once.
func (r *Runner) ObjectCreated(event events.S3Event) {
	for _, record := range event.Records {
		key, err := url.QueryUnescape(record.S3.Object.Key)
		if err != nil {
			continue
		}
		for _, f := range r.o.Functions {
			for _, on := range f.On {
				if on.ObjectCreated != "" && strings.HasPrefix(key, on.ObjectCreated) {
					r.queue(upload{f, events.S3Event{Records: []events.S3EventRecord{record}}})
				}
			}
		}
	}
}

// Uploaded calls the functions that are called for an object, as ObjectCreated does.
func (r *Runner) Uploaded(o blob.Object) { r.ObjectCreated(eventOf(o)) }

// queue drops what does not fit: the next look finds it.
func (r *Runner) queue(u upload) {
	select {
	case r.uploads <- u:
	default:
		r.o.Log.Warn("too many uploads at once, some are handled later", "function", u.function.Name)
	}
}

func (r *Runner) takeUploads(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case u := <-r.uploads:
			r.handle(ctx, u)
		}
	}
}

// handle calls the function until it succeeds, a few times.
func (r *Runner) handle(ctx context.Context, u upload) {
	for attempt := 1; ; attempt++ {
		_, err := r.invoke(ctx, u.function, u.event)
		if err == nil || ctx.Err() != nil {
			return
		}
		r.o.Log.ErrorContext(ctx, "upload was not handled", "function", u.function.Name, "attempt", attempt, "error", err)
		if attempt == uploadAttempts || !pause(ctx, uploadRetry) {
			return
		}
	}
}

// catchUp calls f for objects whose event got lost: at its start for all there
// are, later for those that were there at the last look already, so that it
// does not race with their events. An object is told of once by each process.
func (r *Runner) catchUp(ctx context.Context, f Function, prefix string) {
	interval := catchUpInterval
	if r.o.Polled {
		interval = polledInterval
	}
	seen := make(map[string]bool) // key and ETag → whether it was told of
	for first := true; ; first = false {
		now := make(map[string]bool)
		for object, err := range r.o.Objects.List(ctx, prefix) {
			if err != nil {
				if ctx.Err() == nil {
					r.o.Log.WarnContext(ctx, "uploads cannot be listed, trying again later", "error", err)
				}
				now = seen
				break
			}
			id := object.Key + "\n" + object.ETag
			handled, before := seen[id]
			if !handled && (first || before || r.o.Polled) {
				r.handle(ctx, upload{f, eventOf(object)})
				handled = true
			}
			now[id] = handled
		}
		seen = now
		if !pause(ctx, interval) {
			return
		}
	}
}

// eventOf makes S3's event of an object that is there.
func eventOf(o blob.Object) events.S3Event {
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
