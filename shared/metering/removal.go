package metering

import (
	"context"

	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// The kinds of operation that remove what one transaction cannot.
const (
	emptyBucket   = "metering-bucket-delete"
	forgetHistory = "metering-subscription-delete"
)

// emptying is the input of both: a bucket's id, or a subscription's.
type emptying struct {
	Bucket       string `json:"bucket,omitempty"`
	Subscription string `json:"subscription,omitempty"`
}

// Remover removes from the table what was deleted. It is safe for concurrent use.
type Remover struct{ table *store.Table }

// NewRemover makes the Remover of an installation.
func NewRemover(p installation.Parts) Remover { return Remover{p.Table} }

// Definitions lists the operations. Every state has to happen: what it left would stay for ever.
//
// Nothing comes into a bucket once its record is gone, since each write that makes something there
// asks for the record: so what a state has found gone stays gone.
func (r Remover) Definitions() []operation.Definition {
	return []operation.Definition{
		{
			Kind: emptyBucket, First: "subscriptions",
			States: map[string]operation.State{
				"subscriptions": {Does: "deletes the subscriptions with their history", Task: r.subscriptions(), Next: "plans", Must: true},
				"plans":         {Does: "deletes the plans", Task: r.plans(), Next: operation.Succeed, Must: true},
			},
		},
		{
			Kind: forgetHistory, First: "history",
			States: map[string]operation.State{
				"history": {Does: "deletes the periods of the subscription", Task: r.history(), Next: operation.Succeed, Must: true},
			},
		},
	}
}

func queryOf(partition func(emptying) string) func(context.Context, operation.Step) (store.Query, error) {
	return func(_ context.Context, s operation.Step) (store.Query, error) {
		var in emptying
		err := s.Input(&in)
		return store.Query{PK: partition(in)}, err
	}
}

func (r Remover) subscriptions() operation.Task {
	return operation.Items[record]{
		Table: r.table,
		Query: queryOf(func(in emptying) string { return subscriptionPartition(in.Bucket) }),
		Change: func(ctx context.Context, _ operation.Step, its record, write operation.Group) error {
			past, err := store.Collect[history](ctx, r.table, store.Query{PK: historyPartition(its.ID)})
			if err != nil {
				return err
			}
			for _, h := range past {
				if err := write(store.Delete(historyKey(its.ID, h.From))); err != nil {
					return err
				}
			}
			if err := write(store.Delete(subscriptionExternalKey(its.BucketID, its.ExternalID))); err != nil {
				return err
			}
			// The subscription goes only as it was read: Close may have written down a period
			// meanwhile, which is found by it.
			return write(store.Delete(customerRowKey(its.BucketID, its.CustomerKey, its.ID)),
				store.Delete(its.key()).If(store.Equal(store.At("version"), its.Version)))
		},
	}.Drain()
}

func (r Remover) plans() operation.Task {
	return operation.Items[planRecord]{
		Table: r.table,
		Query: queryOf(func(in emptying) string { return planPartition(in.Bucket) }),
		Change: func(_ context.Context, _ operation.Step, p planRecord, write operation.Group) error {
			return write(store.Delete(planExternalKey(p.BucketID, p.ExternalID)), store.Delete(planKey(p.BucketID, p.ID)))
		},
	}.Drain()
}

func (r Remover) history() operation.Task {
	return operation.Items[history]{
		Table: r.table,
		Query: queryOf(func(in emptying) string { return historyPartition(in.Subscription) }),
		Change: func(_ context.Context, s operation.Step, h history, write operation.Group) error {
			var in emptying
			if err := s.Input(&in); err != nil {
				return err
			}
			return write(store.Delete(historyKey(in.Subscription, h.From)))
		},
	}.Drain()
}
