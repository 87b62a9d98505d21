package keys

import (
	"context"
	"errors"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// The kinds of operation that carry out what one transaction cannot.
const (
	emptyBucket   = "key-bucket-delete"
	emptyConsumer = "consumer-delete"
	rollKeys      = "consumer-roll-key"
	stampKeys     = "consumer-metadata"
	createBatch   = "api-key-bulk-create"
)

// cascade is the input of all of them.
type cascade struct {
	AccountID  string `json:"accountId"`
	Bucket     string `json:"bucket"`
	Generation int    `json:"generation"`
	// The consumer, "" when the whole bucket is meant.
	ConsumerID   string `json:"consumerId,omitempty"`
	ConsumerName string `json:"consumerName,omitempty"`
}

func (v seen) cascade() cascade {
	return cascade{
		AccountID: v.bucket.AccountID, Bucket: v.bucket.Name, Generation: v.bucket.Generation,
		ConsumerID: v.consumer.ID, ConsumerName: v.consumer.Name,
	}
}

func (c cascade) generation() generation {
	return nameInAccount{c.AccountID, c.Bucket}.generation(c.Generation)
}

// keys is the partition of the consumer's keys.
func (c cascade) keys() string { return consumerKeyPartition(c.generation(), c.ConsumerName) }

// begin is the write that starts an operation.
func (s *Service) begin(kind, id, subject string, c cascade) store.Write {
	return s.beginAfter(0, kind, id, subject, c)
}

func (s *Service) beginAfter(delay time.Duration, kind, id, subject string, c cascade) store.Write {
	now := s.clock()
	return operation.Begin(operation.Start{
		ID: id, Kind: kind, Subject: subject, AccountID: c.AccountID, Input: c, NotBefore: now.Add(delay),
	}, now)
}

// Cascades are the tasks of those operations.
type Cascades struct{ table *store.Table }

// NewCascades makes them for a table.
func NewCascades(t *store.Table) Cascades { return Cascades{table: t} }

// tireless has a task repeated for days: what it leaves undone stays in the
// table for ever.
var tireless = operation.Retry{Attempts: 10_000}

// Definitions lists the operations, for the engine that runs them.
func (c Cascades) Definitions() []operation.Definition {
	settle := func(next string) operation.State {
		return operation.State{
			Does: "wait until no reader has an older view", Task: wait, Next: next, Retry: tireless,
		}
	}
	leave := operation.State{
		Does: "take the entry out of the bucket's overlay", Task: c.leave, Next: operation.Succeed, Retry: tireless,
	}
	return []operation.Definition{
		{
			Kind: emptyBucket, First: "consumers",
			States: map[string]operation.State{
				"consumers":      {Does: "delete the consumers with all that hangs on them", Task: c.consumers(), Next: "counts", Retry: tireless},
				"counts":         {Does: "delete the counts of consumers", Task: c.counts(), Next: "settle", Retry: tireless},
				"settle":         settle("late-consumers"),
				"late-consumers": {Does: "delete what was created while the bucket was deleted", Task: c.consumers(), Next: "late-counts", Retry: tireless},
				"late-counts":    {Does: "delete the counts of those", Task: c.counts(), Next: operation.Succeed, Retry: tireless},
			},
		},
		{
			Kind: emptyConsumer, First: "keys",
			States: map[string]operation.State{
				"keys":   {Does: "delete the consumer's keys", Task: c.consumerKeys, Next: "settle", Retry: tireless},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
		{
			Kind: rollKeys, First: "keys",
			States: map[string]operation.State{
				"keys":   {Does: "write the expiry into the keys", Task: c.roll, Next: "settle", Retry: tireless},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
		{
			Kind: stampKeys, First: "keys",
			States: map[string]operation.State{
				"keys":   {Does: "write the consumer's metadata into the keys", Task: c.stamp, Next: "settle", Retry: tireless},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
		{
			Kind: createBatch, First: "watch",
			States: map[string]operation.State{
				"watch":  {Does: "see whether the creation was finished, and end it otherwise", Task: c.watch, Next: "keys", Or: []string{operation.Succeed}, Retry: tireless},
				"keys":   {Does: "delete the keys that were written", Task: c.batchKeys, Next: "settle", Retry: tireless},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
	}
}

func wait(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{After: grace}, nil
}

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
					if err := k.sweep(g, r.Name, write); err != nil {
						return err
					}
				}
			}
			for _, w := range (consumerRecord{Name: r.Name}).indexed(g, r) {
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

// sweep deletes a dead key. Its text may be another key's by now.
func (k keyRecord) sweep(g generation, consumer string, write operation.Group) error {
	if err := write(store.Delete(keyHashKey(k.Hash)).If(store.Equal(store.At("keyId"), k.ID))); err != nil {
		return err
	}
	return write(store.Delete(consumerKeyKey(g, consumer, k.ID)))
}

// partition makes the query of a whole partition.
func partition(of func(cascade) string) func(context.Context, operation.Step) (store.Query, error) {
	return func(_ context.Context, s operation.Step) (store.Query, error) {
		var in cascade
		err := s.Input(&in)
		return store.Query{PK: of(in)}, err
	}
}

// shard is a row of any partition, known by its sort key.
type shard struct {
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

// walk visits the rows of the consumer's keys.
func (c Cascades) walk(ctx context.Context, s operation.Step, change func(keyRecord, operation.Group) error) (operation.Result, error) {
	return operation.Items[keyRecord]{
		Table: c.table,
		Query: partition(cascade.keys),
		Change: func(_ context.Context, _ operation.Step, k keyRecord, write operation.Group) error {
			return change(k, write)
		},
	}.Walk(func(k keyRecord) string { return k.ID })(ctx, s)
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
		return k.sweep(in.generation(), in.ConsumerName, write)
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
		return k.sweep(in.generation(), in.ConsumerName, write)
	})
}

// bucketOf reads the bucket, and gives a zero record when it was deleted: its
// own cascade takes everything then.
func (c Cascades) bucketOf(ctx context.Context, s operation.Step) (bucketRecord, cascade, error) {
	var in cascade
	if err := s.Input(&in); err != nil {
		return bucketRecord{}, in, err
	}
	var b bucketRecord
	err := c.table.Load(ctx, store.Want(bucketKey(in.AccountID, in.Bucket), &b))
	if err != nil || !b.exists() || b.Generation != in.Generation {
		return bucketRecord{}, in, err
	}
	return b, in, nil
}

// roll writes the expiry that the overlay gives each key into the key.
func (c Cascades) roll(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, in, err := c.bucketOf(ctx, s)
	if err != nil || b.ID == "" {
		return operation.Result{}, err
	}
	return c.walk(ctx, s, func(k keyRecord, write operation.Group) error {
		l, there := b.Changes.apply(k.life)
		if !there || k.ConsumerID != in.ConsumerID || k.ExpiresOn != nil || l.ExpiresOn == nil {
			return nil
		}
		expiry := store.Set(store.At("expiresOn"), l.ExpiresOn)
		// A key that was changed since settled its expiry itself.
		return write(
			store.Update(consumerKeyKey(in.generation(), in.ConsumerName, k.ID), expiry).
				If(store.Equal(store.At("revision"), k.Revision)).If(store.Lacks(store.At("expiresOn"))),
			store.Update(keyHashKey(k.Hash), expiry).
				If(store.Equal(store.At("keyId"), k.ID)).If(store.Lacks(store.At("expiresOn"))))
	})
}

// stamp writes the metadata of the operation's entry into the keys that have
// older metadata. An entry that is gone was replaced by a newer one.
func (c Cascades) stamp(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, in, err := c.bucketOf(ctx, s)
	if err != nil {
		return operation.Result{}, err
	}
	entry, there := b.Changes[s.ID]
	if !there {
		return operation.Result{}, nil
	}
	return c.walk(ctx, s, func(k keyRecord, write operation.Group) error {
		if k.ConsumerID != in.ConsumerID {
			return nil
		}
		return write(k.stamped(entry.Metadata, entry.Revision).If(store.Less(store.At("stamped"), entry.Revision)))
	})
}

var errNotWriting = errors.New("keys: the batch is no longer being written")

// watch ends a bulk creation that is neither finished nor given up.
func (c Cascades) watch(ctx context.Context, s operation.Step) (operation.Result, error) {
	var b batchRecord
	if err := c.table.Load(ctx, store.Want(keyBatchKey(s.ID), &b)); err != nil {
		return operation.Result{}, err
	}
	switch b.State {
	case batchWriting:
		return operation.Result{Writes: []store.Write{giveUp(s.ID)}}, nil
	case batchGivenUp:
		return operation.Result{}, nil
	case batchDone:
	}
	return operation.Result{Writes: []store.Write{store.Delete(keyBatchKey(s.ID))}, Next: operation.Succeed}, nil
}

// leave takes the operation's entry out of the overlay, if it is still there.
func (c Cascades) leave(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, _, err := c.bucketOf(ctx, s)
	if err != nil {
		return operation.Result{}, err
	}
	var writes []store.Write
	if _, there := b.Changes[s.ID]; there {
		writes = append(writes, b.leave(s.ID))
	}
	if s.Kind == createBatch {
		writes = append(writes, store.Delete(keyBatchKey(s.ID)))
	}
	return operation.Result{Writes: writes}, nil
}
