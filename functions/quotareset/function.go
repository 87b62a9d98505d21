// Package quotareset has what is due for metering subscriptions done once an
// hour: periods that have ended are written down, and trials that are over get
// their end status (specification 4.9, design, section 8).
//
// No route leads here. It begins durable operations, which the function
// operations carries out, and does no more: a call that is late, missed or
// doubled changes nothing. What is due, and what a gateway or a reader goes by
// meanwhile, are packages boundaries and metering in shared.
package quotareset

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

// Function declares what calls the function, and what it uses.
//
// Periods end at midnight in UTC and are due metering.Settle later, at ten past. A
// schedule that counts from the deployment could come an hour after that.
var Function = trigger.Function{
	Name:    "quotareset",
	Does:    "Begins the operations that close the quota periods and trials which have ended.",
	On:      []trigger.Event{{Schedule: &trigger.Schedule{Name: "hourly", Cron: "11 * * * *"}}},
	Uses:    []api.Use{api.QueryDue, api.PutItem},
	Reach:   store.Reach{Writes: []store.Space{"operation"}},
	Timeout: time.Minute,
	// A period is closed within the hour, and not only with the next.
	Retries: trigger.Retries{Attempts: 2, MaxAge: 30 * time.Minute},
}

// Open makes the function's handler, as lambda.Start takes it.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Within(Function.Reach)
	b := boundaries.Open(p)
	return probe.Handler(Handler(b, p.Now, p.Log), func(ctx context.Context) error {
		_, err := b.Begin(ctx, time.Time{}) // it asks for what was due before all time, which is nothing
		return err
	}), nil
}

// Boundaries begins what is due.
type Boundaries interface {
	Begin(ctx context.Context, now time.Time) (begun int, err error)
}

var _ Boundaries = (*boundaries.Service)(nil)

// Handler makes the function's handler, as lambda.Start takes it. An error asks
// for the call again, which is safe.
func Handler(b Boundaries, now func() time.Time, log *slog.Logger) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error {
		begun, err := b.Begin(ctx, now())
		if begun > 0 {
			log.InfoContext(ctx, "quota periods and trials are being closed", "operations", begun)
		}
		if err != nil {
			return fmt.Errorf("begin to close what is due: %w", err)
		}
		return nil
	}
}
