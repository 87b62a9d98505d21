// Package auditchain takes over the audit records that changes have written: the
// table's stream calls it with those that are new, and it has them chained and
// counted.
//
// No route leads here. What the chain is, and how a record that is told twice or
// late gets there once, is package trail in shared.
package auditchain

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/audit/trail"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/stream"
	"github.com/gatewright/gatewright/shared/trigger"
	"github.com/gatewright/gatewright/shared/trigger/probe"
)

// Function declares what calls the function, and what it uses.
//
// A batch is gathered for a second: what is chained together shares the writes of
// the chain's end and of the counters, and nobody waits for it. A batch of nothing but records
// that were told before leaves the end as it is, and checks it.
var Function = trigger.Function{
	Name: "auditchain",
	Does: "Chains and counts the audit records that changes have written.",
	On:   []trigger.Event{{StreamRecords: true, FilterPattern: fresh, Gather: time.Second}},
	Uses: []api.Use{api.GetItem, api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.DeleteItem, api.CheckItem, api.RootKey},
	Reach: store.Reach{
		Reads:  []store.Space{"audit", "audit-head", "audit-new", "root-key"},
		Writes: []store.Space{"audit", "audit-count", "audit-head", "audit-new"},
	},
	Timeout: time.Minute,
}

// fresh matches records that were just written.
const fresh = `{"eventName":["INSERT"],"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"audit-new#"}]}}}}`

// Open makes the function's handler, as lambda.Start takes it.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Within(Function.Reach)
	return probe.Handler(Handler(trail.Open(p), p.Log), probe.Reads(p.Table, Function.Reach)), nil
}

// Chain chains records.
type Chain interface {
	// HandleStream answers the indexes of the records to deliver again.
	HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int)
}

var _ Chain = (*trail.Trail)(nil)

// Handler makes the function's handler, as lambda.Start takes it. It answers which
// records failed; the event source has to be set up for that
// (ReportBatchItemFailures).
func Handler(c Chain, log *slog.Logger) func(context.Context, events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
	return func(ctx context.Context, in events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
		return stream.Handle(ctx, log, in.Records, c.HandleStream), nil
	}
}
