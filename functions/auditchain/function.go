// Package auditchain processes new audit records: the table's stream calls it with the records that changes have
// written, and it adds them to the audit chain and counts them.
//
// No route calls this function. Package trail in shared defines the chain, and adds each record exactly once, even if
// the record is delivered twice or late. Read function.go: the only other Go file is the main package in folder lambda.
package auditchain

import (
	"context"
	"log/slog"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/gatewright/gatewright/shared/core/audit/trail"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/stream"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/runtime/trigger"
	"github.com/gatewright/gatewright/shared/runtime/trigger/probe"
)

// Function declares the events that call the function, and its uses.
//
// The stream collects a batch for a second, and no request waits for it. An account's records of a batch are chained
// together. Each transaction chains up to 45 of them, and writes the head of the account's chain and each changed
// counter once. If all records were delivered before, the function only checks the head and does not change it.
var Function = trigger.Function{
	Name:        "auditchain",
	Description: "Chains and counts the audit records that changes have written.",
	Events:      []trigger.Event{{FromStream: true, FilterPattern: newRecordFilter, BatchWindow: time.Second}},
	Uses: []api.Use{
		api.GetItem, api.BatchGetItem, api.Query, api.PutItem, api.UpdateItem, api.DeleteItem,
		api.CheckItem, api.RootKey,
	},
	TableAccess: store.TableAccess{
		Reads:  []store.KeyPrefix{"audit", "audit-head", "audit-new", "root-key"},
		Writes: []store.KeyPrefix{"audit", "audit-count", "audit-head", "audit-new"},
	},
	Timeout: time.Minute,
}

// newRecordFilter is the stream's filter for new audit records: only their creation, and no later change.
const newRecordFilter = `{"eventName":["INSERT"],"dynamodb":{"Keys":{"pk":{"S":[{"prefix":"audit-new#"}]}}}}`

// Open creates the function's handler, for lambda.Start.
func Open(p installation.Parts) (any, error) {
	p.Table = p.Table.Restrict(Function.TableAccess)
	return probe.Handler(Handler(trail.Open(p), p.Log), probe.TableCheck(p.Table, Function.TableAccess)), nil
}

// Chainer adds records to the audit chain.
type Chainer interface {
	// HandleStream returns the indexes of the records to deliver again.
	HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int)
}

var _ Chainer = (*trail.Trail)(nil)

// Handler creates the function's handler, for lambda.Start. The handler returns the records that failed, so the event
// source needs ReportBatchItemFailures.
func Handler(
	c Chainer, log *slog.Logger,
) func(context.Context, events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
	return func(ctx context.Context, in events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
		return stream.Handle(ctx, log, in.Records, c.HandleStream), nil
	}
}
