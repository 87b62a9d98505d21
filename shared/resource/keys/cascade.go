package keys

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// The kinds of operation that complete changes that are too large for one transaction.
const (
	deleteBucket   = "key-bucket-delete"
	deleteConsumer = "consumer-delete"
	rollKeys       = "consumer-roll-key"
	updateMetadata = "consumer-metadata"
	createBatch    = "api-key-bulk-create"
)

// operationKind returns the kind of operation that writes an overlay change of a kind into the keys.
func operationKind(k overlay.Kind) string {
	switch k {
	case overlay.Deleting:
		return deleteConsumer
	case overlay.Rolling:
		return rollKeys
	case overlay.UpdatingMetadata:
		return updateMetadata
	case overlay.Creating:
	}
	return createBatch
}

// Cascades defines the operations that complete large changes.
type Cascades struct{ table *store.Table }

// NewCascades returns the Cascades of a table.
func NewCascades(t *store.Table) Cascades { return Cascades{table: t} }

// Definitions returns the definitions of the operations, for the engine that runs them. Every state has to succeed
// (MustSucceed). If a state could fail, the table would forever contain keys that nobody can delete, and overlay
// entries, whose number is limited.
func (c Cascades) Definitions() []operation.Definition {
	waitForReaders := func(next string) operation.State {
		return operation.State{
			Description: "wait until no reader has an older view", Task: waitGrace, Next: next, MustSucceed: true,
		}
	}
	removeEntry := operation.State{
		Description: "take the entry out of the bucket's overlay", Task: c.removeEntry, Next: operation.Succeed,
		MustSucceed: true,
	}
	return []operation.Definition{
		{
			Kind: deleteBucket, First: "consumers",
			States: map[string]operation.State{
				"consumers": {
					Description: "delete the consumers with all that hangs on them", Task: c.deleteConsumers(),
					Next: "counts", MustSucceed: true,
				},
				"counts": {
					Description: "delete the counts of consumers", Task: c.deleteCounts(), Next: "settle",
					MustSucceed: true,
				},
				"settle": waitForReaders("late-consumers"),
				"late-consumers": {
					Description: "delete what was created while the bucket was deleted", Task: c.deleteConsumers(),
					Next: "late-counts", MustSucceed: true,
				},
				"late-counts": {
					Description: "delete the counts of those", Task: c.deleteCounts(), Next: operation.Succeed,
					MustSucceed: true,
				},
			},
		},
		{
			Kind: deleteConsumer, First: "keys",
			States: map[string]operation.State{
				"keys": {
					Description: "delete the consumer's keys", Task: c.deleteConsumerKeys, Next: "settle", MustSucceed: true,
				},
				"settle": waitForReaders("leave"),
				"leave":  removeEntry,
			},
		},
		{
			Kind: rollKeys, First: "keys",
			States: map[string]operation.State{
				"keys":   {Description: "write the expiry into the keys", Task: c.writeExpiry, Next: "settle", MustSucceed: true},
				"settle": waitForReaders("leave"),
				"leave":  removeEntry,
			},
		},
		{
			Kind: updateMetadata, First: "keys",
			States: map[string]operation.State{
				"keys": {
					Description: "write the consumer's metadata into the keys", Task: c.writeMetadata, Next: "settle",
					MustSucceed: true,
				},
				"settle": waitForReaders("leave"),
				"leave":  removeEntry,
			},
		},
		{
			Kind: createBatch, First: "watch",
			States: map[string]operation.State{
				"watch": {
					Description: "see whether the creation was finished, and end it otherwise", Task: c.checkCreation,
					Next: "keys", Alternatives: []string{operation.Succeed}, MustSucceed: true,
				},
				"keys": {
					Description: "delete the keys that were written", Task: c.deleteBatchKeys, Next: "settle", MustSucceed: true,
				},
				"settle": waitForReaders("leave"),
				"leave":  removeEntry,
			},
		},
	}
}

func waitGrace(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{Delay: overlay.Grace}, nil
}

// partitionQuery returns the Query function of an operation.Items for a whole partition. partitionOf returns the
// partition for the operation's input.
func partitionQuery(partitionOf func(cascade) string) func(context.Context, operation.Step) (store.Query, error) {
	return func(_ context.Context, s operation.Step) (store.Query, error) {
		var in cascade
		err := s.Input(&in)
		return store.Query{PK: partitionOf(in)}, err
	}
}

// eachKey calls change for each key record in the partition of the operation's consumer.
func (c Cascades) eachKey(
	ctx context.Context, s operation.Step, change func(keyRecord, operation.Group) error,
) (operation.Result, error) {
	return operation.Items[keyRecord]{
		Table: c.table,
		Query: partitionQuery(cascade.keyPartition),
		Change: func(_ context.Context, _ operation.Step, k keyRecord, write operation.Group) error {
			return change(k, write)
		},
	}.Walk(func(k keyRecord) string { return k.ID })(ctx, s)
}

// loadBucket reads the bucket of an operation, and returns it with the operation's input. It returns a zero record if
// the bucket was deleted: the operation deleteBucket then deletes all contents of the bucket.
func (c Cascades) loadBucket(ctx context.Context, s operation.Step) (bucketRecord, cascade, error) {
	var in cascade
	if err := s.Input(&in); err != nil {
		return bucketRecord{}, in, err
	}
	var b bucketRecord
	err := c.table.Load(ctx, store.Get(bucketKey(in.AccountID, in.Bucket), &b))
	if err != nil || !b.exists() || b.Generation != in.Generation {
		return bucketRecord{}, in, err
	}
	return b, in, nil
}

// removeEntry removes the operation's entry from the overlay, if it still exists. For a createBatch, it also deletes
// the record of the batch.
func (c Cascades) removeEntry(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, _, err := c.loadBucket(ctx, s)
	if err != nil {
		return operation.Result{}, err
	}
	var writes []store.Write
	if _, exists := b.Changes[s.ID]; exists {
		writes = append(writes, b.removeChange(s.ID))
	}
	if s.Kind == createBatch {
		writes = append(writes, store.Delete(keyBatchKey(s.ID)))
	}
	return operation.Result{Writes: writes}, nil
}
