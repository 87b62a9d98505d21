// Package quotareset begins the work that is due for metering subscriptions, once an hour. This work records quota
// periods that have ended, and sets the status of subscriptions whose trial has ended (specification 4.9; design,
// section 8).
//
// No route calls the function. It only begins durable operations, which functions/operations runs. So a late, missed or
// repeated call does no harm. Packages billingperiods and metering in shared decide what is due. They also decide which
// quotas and statuses apply until the work is done. Read function.go: the other files are tests and the main package in
// folder lambda.
package quotareset

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/billingperiods"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// Function declares the events that call the function, and its uses.
//
// Periods end at midnight in UTC and are due metering.SettleTime later. So the schedule calls the function at 11
// minutes past each hour. A rate-based schedule, which counts from its creation, could call the function up to an hour
// after a period is due.
var Function = trigger.Function{
	Name:        "quotareset",
	Description: "Begins the operations that close the quota periods and trials which have ended.",
	Events:      []trigger.Event{{Schedule: &trigger.Schedule{Name: "hourly", Cron: "11 * * * *"}}},
	Uses:        []api.Use{api.QueryDue, api.PutItem},
	TableAccess: store.TableAccess{Writes: []store.KeyPrefix{"operation"}},
	Timeout:     time.Minute,
	// MaxAge is shorter than the time to the next call, which begins the same work.
	Retries: trigger.Retries{MaxRetries: 2, MaxAge: 30 * time.Minute},
}

// Open creates the function's handler, for lambda.Start.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Restrict(Function.TableAccess)
	b := billingperiods.Open(p)
	return probe.Handler(Handler(b, p.Now, p.Log), func(ctx context.Context) error {
		_, err := b.Begin(ctx, time.Time{}) // a probe without effect: nothing is due at the zero time
		return err
	}), nil
}

// PeriodCloser begins the operations that close periods and trials. Begin returns the number of operations that it has
// begun.
type PeriodCloser interface {
	Begin(ctx context.Context, now time.Time) (started int, err error)
}

var _ PeriodCloser = (*billingperiods.Service)(nil)

// Handler creates the function's handler, for lambda.Start. An error makes Lambda repeat the call, which is safe.
func Handler(closer PeriodCloser, now func() time.Time, log *slog.Logger) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error {
		started, err := closer.Begin(ctx, now())
		if started > 0 {
			log.InfoContext(ctx, "quota periods and trials are being closed", "operations", started)
		}
		if err != nil {
			return fmt.Errorf("begin to close what is due: %w", err)
		}
		return nil
	}
}
