package keys

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// deleteConsumers returns the task that deletes all consumers of a bucket's generation. It deletes the record of a
// consumer after the consumer's keys, and only if the record has not changed since it was read. Otherwise a key may
// have been created meanwhile, and without the record of its consumer it could not be found any more.
func (c Cascades) deleteConsumers() operation.Task {
	return operation.Items[consumerRecord]{
		Table: c.table,
		Query: partitionQuery(func(in cascade) string { return consumerPartition(in.generation()) }),
		Change: func(ctx context.Context, s operation.Step, r consumerRecord, write operation.Group) error {
			var in cascade
			if err := s.Input(&in); err != nil {
				return err
			}
			g := in.generation()
			if r.KeyCount > 0 {
				rows, err := store.Collect[keyRecord](ctx, c.table, store.Query{PK: consumerKeyPartition(g, r.Name)})
				if err != nil {
					return err
				}
				for _, k := range rows {
					if err := k.purgeRecords(g, r.Name, write); err != nil {
						return err
					}
				}
			}
			for _, w := range (consumerRecord{Name: r.Name}).indexWrites(g, r) {
				if err := write(w); err != nil {
					return err
				}
			}
			return write(
				store.Delete(consumerIDKey(g, r.ID)),
				store.Delete(consumerKey(g, r.Name)).If(store.Equal(store.At("version"), r.Version)))
		},
	}.Drain()
}

// purgeRecords deletes the two records of a key that no reader sees any longer. It keeps the hash record if another key
// has the same text now.
func (k keyRecord) purgeRecords(g generation, consumer string, write operation.Group) error {
	if err := write(store.Delete(keyHashKey(k.Hash)).If(store.Equal(store.At("keyId"), k.ID))); err != nil {
		return err
	}
	return write(store.Delete(keyRecordKey(g, consumer, k.ID)))
}

// shardKey is the record of a shard (countRow) that is read only for its sort key.
type shardKey struct {
	store.UnknownAttributes

	SK string `dynamodbav:"sk"`
}

// deleteCounts returns the task that deletes the shards of a bucket's generation, which count its consumers.
func (c Cascades) deleteCounts() operation.Task {
	return operation.Items[shardKey]{
		Table: c.table,
		Query: partitionQuery(func(in cascade) string { return consumerCountPartition(in.generation()) }),
		Change: func(_ context.Context, s operation.Step, row shardKey, write operation.Group) error {
			var in cascade
			if err := s.Input(&in); err != nil {
				return err
			}
			return write(store.Delete(consumerCountKey(in.generation(), row.SK)))
		},
	}.Drain()
}

// deleteConsumerKeys is the task that deletes the keys of a deleted consumer. It skips the keys of a later consumer
// with the same name, which are in the same partition.
func (c Cascades) deleteConsumerKeys(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in cascade
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	return c.eachKey(ctx, s, func(k keyRecord, write operation.Group) error {
		if k.ConsumerID != in.ConsumerID {
			return nil
		}
		return k.purgeRecords(in.generation(), in.ConsumerName, write)
	})
}

// deleteBatchKeys is the task that deletes the keys of an abandoned bulk creation.
func (c Cascades) deleteBatchKeys(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in cascade
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	return c.eachKey(ctx, s, func(k keyRecord, write operation.Group) error {
		if k.Batch != s.ID {
			return nil
		}
		return k.purgeRecords(in.generation(), in.ConsumerName, write)
	})
}
