// Package rollup adds up once a minute what gateways have counted of their calls,
// so that a report over months reads few rows.
//
// No route leads here. A call that is late, missed or doubled changes nothing:
// reports count what is not added up yet, and nothing is ever added twice. How,
// is package counts in shared/analytics.
package rollup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/analytics/counts"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

// Function declares what calls the function, and what it uses.
var Function = trigger.Function{
	Name: "rollup",
	Does: "Adds up what gateways have counted of their calls.",
	On:   []trigger.Event{{Schedule: &trigger.Schedule{Name: "minutely", Every: time.Minute}}},
	Uses: []api.Use{api.GetItem, api.BatchGetItem, api.Query, api.QueryDue, api.PutItem, api.DeleteItem},
	Reach: store.Reach{
		Reads:  []store.Space{"analytics", "analytics-calls", "analytics-head", "analytics-new"},
		Writes: []store.Space{"analytics", "analytics-calls", "analytics-head", "analytics-new"},
	},
	Timeout: time.Minute,
	// The next call adds up the same.
	Retries: trigger.Retries{MaxAge: time.Minute},
}

// Open makes the function's handler, as lambda.Start takes it.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Within(Function.Reach)
	return probe.Handler(Handler(counts.NewRollup(p.Table, p.Now)), probe.Reads(p.Table, Function.Reach)), nil
}

// Rollup adds up what is there.
type Rollup interface {
	Run(ctx context.Context) (added int, err error)
}

var _ Rollup = (*counts.Rollup)(nil)

// Handler makes the function's handler, as lambda.Start takes it. An error asks
// for the call again, which is safe.
func Handler(r Rollup) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error {
		if _, err := r.Run(ctx); err != nil {
			return fmt.Errorf("add up what gateways have counted: %w", err)
		}
		return nil
	}
}
