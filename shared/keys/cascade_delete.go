package keys

import (
	"context"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// consumers deletes all consumers of a bucket's generation, each after its
// keys. The consumer's own record goes only if it is as it was read: a key may
// have been created meanwhile, and the record is how it is found.
func (c Cascades) consumers() operation.Task {
	return operation.Items[consumerRecord]{
		Table: c.table,
		Query: partition(func(in cascade) string { return consumerPartition(in.generation()) }),
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
					if err := k.purge(g, r.Name, write); err != nil {
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

// purge deletes both records of a key that no reader sees. Its text may be another
// key's by now.
func (k keyRecord) purge(g generation, consumer string, write operation.Group) error {
	if err := write(store.Delete(keyHashKey(k.Hash)).If(store.Equal(store.At("keyId"), k.ID))); err != nil {
		return err
	}
	return write(store.Delete(consumerKeyKey(g, consumer, k.ID)))
}

// shard is a row of any partition, known by its sort key.
type shard struct {
	store.Rest

	SK string `dynamodbav:"sk"`
}

func (c Cascades) counts() operation.Task {
	return operation.Items[shard]{
		Table: c.table,
		Query: partition(func(in cascade) string { return consumerCountPartition(in.generation()) }),
		Change: func(_ context.Context, s operation.Step, row shard, write operation.Group) error {
			var in cascade
			if err := s.Input(&in); err != nil {
				return err
			}
			return write(store.Delete(consumerCountKey(in.generation(), row.SK)))
		},
	}.Drain()
}

// consumerKeys deletes the keys of a deleted consumer; a later one of its name
// keeps its keys in the same partition.
func (c Cascades) consumerKeys(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in cascade
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	return c.walk(ctx, s, func(k keyRecord, write operation.Group) error {
		if k.ConsumerID != in.ConsumerID {
			return nil
		}
		return k.purge(in.generation(), in.ConsumerName, write)
	})
}

// batchKeys deletes the keys of a batch that was given up.
func (c Cascades) batchKeys(ctx context.Context, s operation.Step) (operation.Result, error) {
	var in cascade
	if err := s.Input(&in); err != nil {
		return operation.Result{}, err
	}
	return c.walk(ctx, s, func(k keyRecord, write operation.Group) error {
		if k.Batch != s.ID {
			return nil
		}
		return k.purge(in.generation(), in.ConsumerName, write)
	})
}
