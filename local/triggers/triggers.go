// Package triggers calls the functions that no route of the API calls, in the same way as AWS: with batches of the
// table's stream, with an event for each uploaded object, and on schedules. A function receives the same JSON as in
// AWS.
//
// As in AWS, an event is delivered at least once, and can be repeated or
// late. Functions have to ensure themselves that an effect happens only once.
//
// Read triggers.go first, then schedules.go, stream.go and uploads.go; shards.go and embedded.go are
// the two kinds of feeds of the table's changes. Package trigger declares the events of each function.
package triggers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/timetable"
)

// Function is a declared function and its Lambda handler.
type Function struct {
	trigger.Function
	Handler lambda.Handler
}

// Options are the options of a Runner. All fields are required.
type Options struct {
	Functions []Function
	// Feed delivers the table's changes.
	Feed Feed
	// Checkpoints stores the position of each function in the feed.
	Checkpoints Checkpoints
	// Objects lists the uploaded objects.
	Objects Objects
	// PollUploads reports whether the bucket sends no events, so that QueueEvent
	// is never called. The Runner then lists the objects every second.
	PollUploads bool
	IDs         *ids.Source
	// Now is the wall clock for schedules.
	Now func() time.Time
	Log *slog.Logger
}

// Runner calls functions. Create it with New, and start it with Run.
type Runner struct {
	o         Options
	schedules []schedule
	uploads   chan upload
	jobs      sync.WaitGroup
}

// New returns a Runner. It fails for a schedule that package timetable rejects.
func New(o Options) (*Runner, error) {
	r := &Runner{o: o, uploads: make(chan upload, uploadQueueSize)}
	for _, f := range o.Functions {
		for _, e := range f.Events {
			if e.Schedule == nil {
				continue
			}
			parsed, err := timetable.Parse(*e.Schedule)
			if err != nil {
				return nil, fmt.Errorf("function %s: %w", f.Name, err)
			}
			r.schedules = append(r.schedules, schedule{f, *e.Schedule, parsed})
		}
	}
	return r, nil
}

// Run calls functions until ctx ends, and then waits for the calls in progress.
func (r *Runner) Run(ctx context.Context) {
	for _, f := range r.o.Functions {
		for _, e := range f.Events {
			switch {
			case e.FromStream:
				r.jobs.Go(func() { r.followStream(ctx, f, e.FilterPattern) })
			case e.ObjectCreated != "":
				r.jobs.Go(func() { r.findLostUploads(ctx, f, e.ObjectCreated) })
			}
		}
	}
	for _, s := range r.schedules {
		r.jobs.Go(func() { r.runSchedule(ctx, s) })
	}
	for range uploadWorkers {
		r.jobs.Go(func() { r.handleUploads(ctx) })
	}
	r.jobs.Wait()
}

// defaultTimeout is the timeout of functions that do not declare a timeout.
const defaultTimeout = time.Minute

// invoke calls a function with an event, encoded as JSON, and returns the JSON
// of its response. As in AWS, a panic of the function is returned as an error.
func (r *Runner) invoke(ctx context.Context, f Function, event any) (resp []byte, err error) {
	payload, err := json.Marshal(event)
	if err != nil {
		return nil, fmt.Errorf("encode the event: %w", err)
	}
	timeout := f.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ctx = lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: r.o.IDs.UUID()})
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v\n%s", cause, debug.Stack())
		}
	}()
	return f.Handler.Invoke(ctx, payload)
}

// sleep waits for d or until ctx ends. It reports whether ctx is still active.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
