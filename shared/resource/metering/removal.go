package metering

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// The kinds of durable operation. They remove more items than fit into one transaction.
const (
	deleteBucket  = "metering-bucket-delete"
	deleteHistory = "metering-subscription-delete"
)

// removalInput is the input of both operations: the id of a bucket or of a subscription.
type removalInput struct {
	Bucket       string `json:"bucket,omitempty"`
	Subscription string `json:"subscription,omitempty"`
}

// Remover removes deleted data from the table. It is safe for concurrent use.
type Remover struct{ table *store.Table }

// NewRemover returns the Remover of an installation.
func NewRemover(p installation.Parts) Remover { return Remover{p.Table} }

// Definitions returns the operations. Every state is mandatory (MustSucceed), because data that a failed state leaves
// behind would stay forever.
//
// A bucket gets no new contents after its record was deleted, because each write that creates contents requires the
// record. Only Close does not: it requires the record of the subscription. So the data that a state has removed does
// not come back.
func (r Remover) Definitions() []operation.Definition {
	return []operation.Definition{
		{
			Kind: deleteBucket, First: "subscriptions",
			States: map[string]operation.State{
				"subscriptions": {
					Description: "deletes the subscriptions with their history", Task: r.removeSubscriptions(),
					Next: "plans", MustSucceed: true,
				},
				"plans": {Description: "deletes the plans", Task: r.removePlans(), Next: operation.Succeed, MustSucceed: true},
			},
		},
		{
			Kind: deleteHistory, First: "history",
			States: map[string]operation.State{
				"history": {
					Description: "deletes the periods of the subscription", Task: r.removeHistory(), Next: operation.Succeed,
					MustSucceed: true,
				},
			},
		},
	}
}

// partitionQuery returns the Query function of an operation.Items for a whole partition. partition returns the
// partition for the operation's input.
func partitionQuery(partition func(removalInput) string) func(context.Context, operation.Step) (store.Query, error) {
	return func(_ context.Context, s operation.Step) (store.Query, error) {
		var in removalInput
		err := s.Input(&in)
		return store.Query{PK: partition(in)}, err
	}
}

// removeSubscriptions returns the task that removes the subscriptions of a bucket, and the rows that are found through
// them.
func (r Remover) removeSubscriptions() operation.Task {
	return operation.Items[record]{
		Table: r.table,
		Query: partitionQuery(func(in removalInput) string { return subscriptionPartition(in.Bucket) }),
		Change: func(ctx context.Context, _ operation.Step, sub record, write operation.Group) error {
			periods, err := store.Collect[history](ctx, r.table, store.Query{PK: historyPartition(sub.ID)})
			if err != nil {
				return err
			}
			for _, h := range periods {
				if err := write(store.Delete(historyKey(sub.ID, h.From))); err != nil {
					return err
				}
			}
			if err := write(store.Delete(subscriptionExternalKey(sub.BucketID, sub.ExternalID))); err != nil {
				return err
			}
			// Delete the subscription only if it has not changed: Close may have recorded another period meanwhile, and
			// that period can be found only through the subscription.
			return write(store.Delete(customerRowKey(sub.BucketID, sub.CustomerKey, sub.ID)),
				store.Delete(sub.key()).If(store.Equal(store.At("version"), sub.Version)))
		},
	}.Drain()
}

// removePlans returns the task that removes the plans of a bucket.
func (r Remover) removePlans() operation.Task {
	return operation.Items[planRecord]{
		Table: r.table,
		Query: partitionQuery(func(in removalInput) string { return planPartition(in.Bucket) }),
		Change: func(_ context.Context, _ operation.Step, p planRecord, write operation.Group) error {
			return write(store.Delete(planExternalKey(p.BucketID, p.ExternalID)), store.Delete(planKey(p.BucketID, p.ID)))
		},
	}.Drain()
}

// removeHistory returns the task that removes the periods of a subscription.
func (r Remover) removeHistory() operation.Task {
	return operation.Items[history]{
		Table: r.table,
		Query: partitionQuery(func(in removalInput) string { return historyPartition(in.Subscription) }),
		Change: func(_ context.Context, s operation.Step, h history, write operation.Group) error {
			var in removalInput
			if err := s.Input(&in); err != nil {
				return err
			}
			return write(store.Delete(historyKey(in.Subscription, h.From)))
		},
	}.Drain()
}
