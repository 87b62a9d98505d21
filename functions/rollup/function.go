// Package rollup adds up the call counts of gateways once a minute, so that a report over months reads only a few
// records.
//
// No route calls the function. A late, missed or repeated call does not change reports: they include counts that are
// not added up yet, and no count is added twice. Package counts in shared/resource/analytics implements this. Read
// function.go: the other files are tests and the main package in folder lambda.
package rollup

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/resource/analytics/counts"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// Function declares the events that call the function, and its uses.
var Function = trigger.Function{
	Name:        "rollup",
	Description: "Adds up what gateways have counted of their calls.",
	Events:      []trigger.Event{{Schedule: &trigger.Schedule{Name: "minutely", Interval: time.Minute}}},
	Uses:        []api.Use{api.GetItem, api.BatchGetItem, api.Query, api.QueryDue, api.PutItem, api.DeleteItem},
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"analytics", "analytics-calls", "analytics-head", "analytics-new"},
		Writes: []store.KeyPrefix{"analytics", "analytics-calls", "analytics-head", "analytics-new"},
	},
	Timeout: time.Minute,
	// No retries are needed, because the next call adds up the same counts.
	Retries: trigger.Retries{MaxAge: time.Minute},
}

// Open creates the function's handler, for lambda.Start.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Restrict(Function.TableAccess)
	return probe.Handler(Handler(counts.NewRollup(p.Table, p.Now)), probe.TableCheck(p.Table, Function.TableAccess)), nil
}

// Rollup adds up the counts that gateways have written.
type Rollup interface {
	Run(ctx context.Context) (added int, err error)
}

var _ Rollup = (*counts.Rollup)(nil)

// Handler creates the function's handler, for lambda.Start. An error makes Lambda repeat the call, which is safe.
func Handler(r Rollup) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error {
		if _, err := r.Run(ctx); err != nil {
			return fmt.Errorf("add up what gateways have counted: %w", err)
		}
		return nil
	}
}
