// Package triggers calls the functions that no route calls, as AWS does: with
// batches of the table's stream, with an event for each uploaded object, and on
// schedules. A function gets the same JSON here as there.
//
// What it is not: exact. Like AWS it calls at least once, and an event may be
// repeated or late; what must happen once is the functions' own care.
//
// Read triggers.go first, then schedules.go, stream.go, filter.go and uploads.go; shards.go and
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
	"github.com/gatewright/gatewright/shared/trigger/timetable"
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
	// Now is the wall clock, which schedules go by.
	Now func() time.Time
	Log *slog.Logger
}

// Runner calls functions. Make it with New, start it with Run.
type Runner struct {
	o         Options
	schedules []schedule
	uploads   chan upload
	jobs      sync.WaitGroup
}

// New makes a Runner. It fails for a schedule that package timetable refuses.
func New(o Options) (*Runner, error) {
	r := &Runner{o: o, uploads: make(chan upload, queuedUploads)}
	for _, f := range o.Functions {
		for _, on := range f.On {
			if on.Schedule == nil {
				continue
			}
			table, err := timetable.Of(*on.Schedule)
			if err != nil {
				return nil, fmt.Errorf("function %s: %w", f.Name, err)
			}
			r.schedules = append(r.schedules, schedule{f, *on.Schedule, table})
		}
	}
	return r, nil
}

// Run calls functions until ctx ends, and then waits for the running calls.
func (r *Runner) Run(ctx context.Context) {
	for _, f := range r.o.Functions {
		for _, on := range f.On {
			switch {
			case on.StreamRecords:
				r.jobs.Go(func() { r.followStream(ctx, f, on.FilterPattern) })
			case on.ObjectCreated != "":
				r.jobs.Go(func() { r.catchUp(ctx, f, on.ObjectCreated) })
			}
		}
	}
	for _, s := range r.schedules {
		r.jobs.Go(func() { r.keep(ctx, s) })
	}
	for range parallelUploads {
		r.jobs.Go(func() { r.takeUploads(ctx) })
	}
	r.jobs.Wait()
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
