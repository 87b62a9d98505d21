// Package triggers calls the functions that no route calls, as AWS does: with
// batches of the table's stream, with an event for each uploaded object, and on
// schedules. A function gets the same JSON here as there.
//
// What it is not: exact. Like AWS it calls at least once, and an event may be
// repeated or late; what must happen once is the functions' own care.
//
// Read triggers.go first, then stream.go, filter.go and uploads.go; shards.go and
// embedded.go are where changes come from. What calls what is declared in package
// trigger.
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

	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/trigger"
)

// Function is a declared function and its Lambda handler.
type Function struct {
	trigger.Function
	Handler lambda.Handler
}

// Options are what a Runner takes from outside. All fields are needed.
type Options struct {
	Functions []Function
	// Feed tells the table's changes.
	Feed Feed
	// Checkpoints remember how far the feed was read.
	Checkpoints Checkpoints
	// Objects lists what was uploaded.
	Objects Objects
	// Polled says that nobody calls ObjectCreated: the objects are then looked for
	// each second.
	Polled bool
	IDs    *ids.Source
	Log    *slog.Logger
}

// Runner calls functions. Make it with New, start it with Run.
type Runner struct {
	o       Options
	uploads chan upload
	jobs    sync.WaitGroup
}

// New makes a Runner.
func New(o Options) *Runner {
	return &Runner{o: o, uploads: make(chan upload, queuedUploads)}
}

// Run calls functions until ctx ends, and then waits for the running calls.
func (r *Runner) Run(ctx context.Context) {
	for _, f := range r.o.Functions {
		for _, on := range f.On {
			switch {
			case on.StreamRecords:
				r.jobs.Go(func() { r.followStream(ctx, f, on.FilterPattern) })
			case on.Schedule != nil:
				r.jobs.Go(func() { r.keepSchedule(ctx, f, *on.Schedule) })
			case on.ObjectCreated != "":
				r.jobs.Go(func() { r.catchUp(ctx, f, on.ObjectCreated) })
			}
		}
	}
	for range parallelUploads {
		r.jobs.Go(func() { r.takeUploads(ctx) })
	}
	r.jobs.Wait()
}

// keepSchedule calls the function at once, because a call may have been missed
// while this process was not there, and then at every interval. A call that
// takes longer than the interval delays the next one.
func (r *Runner) keepSchedule(ctx context.Context, f Function, s trigger.Schedule) {
	ticker := time.NewTicker(s.Every)
	defer ticker.Stop()
	for {
		if _, err := r.invoke(ctx, f, s); err != nil && ctx.Err() == nil {
			r.o.Log.ErrorContext(ctx, "scheduled call failed", "function", f.Name, "schedule", s.Name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// defaultTimeout is for functions that declare none.
const defaultTimeout = time.Minute

// invoke calls a function with an event and gives its answer, both as JSON. A
// panic of the function is its error, as in AWS.
func (r *Runner) invoke(ctx context.Context, f Function, event any) (answer []byte, err error) {
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

// pause waits and reports whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
