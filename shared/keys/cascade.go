package keys

import (
	"context"

	"github.com/gatewright/gatewright/shared/keys/overlay"
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

// cascadeOf is the kind of operation that writes out a kind of change.
func cascadeOf(k overlay.Kind) string {
	switch k {
	case overlay.Deleting:
		return emptyConsumer
	case overlay.Rolling:
		return rollKeys
	case overlay.Stamping:
		return stampKeys
	case overlay.Creating:
	}
	return createBatch
}

// Cascades are the definitions of those operations.
type Cascades struct{ table *store.Table }

// NewCascades makes them for a table.
func NewCascades(t *store.Table) Cascades { return Cascades{table: t} }

// Definitions lists the operations, for the engine that runs them. Every state of
// theirs must happen: what it left undone would stay in the table for ever, keys
// that nobody can delete, or an entry of an overlay, of which a bucket has room
// for few.
func (c Cascades) Definitions() []operation.Definition {
	settle := func(next string) operation.State {
		return operation.State{
			Does: "wait until no reader has an older view", Task: wait, Next: next, Must: true,
		}
	}
	leave := operation.State{
		Does: "take the entry out of the bucket's overlay", Task: c.leave, Next: operation.Succeed, Must: true,
	}
	return []operation.Definition{
		{
			Kind: emptyBucket, First: "consumers",
			States: map[string]operation.State{
				"consumers":      {Does: "delete the consumers with all that hangs on them", Task: c.consumers(), Next: "counts", Must: true},
				"counts":         {Does: "delete the counts of consumers", Task: c.counts(), Next: "settle", Must: true},
				"settle":         settle("late-consumers"),
				"late-consumers": {Does: "delete what was created while the bucket was deleted", Task: c.consumers(), Next: "late-counts", Must: true},
				"late-counts":    {Does: "delete the counts of those", Task: c.counts(), Next: operation.Succeed, Must: true},
			},
		},
		{
			Kind: emptyConsumer, First: "keys",
			States: map[string]operation.State{
				"keys":   {Does: "delete the consumer's keys", Task: c.consumerKeys, Next: "settle", Must: true},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
		{
			Kind: rollKeys, First: "keys",
			States: map[string]operation.State{
				"keys":   {Does: "write the expiry into the keys", Task: c.roll, Next: "settle", Must: true},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
		{
			Kind: stampKeys, First: "keys",
			States: map[string]operation.State{
				"keys":   {Does: "write the consumer's metadata into the keys", Task: c.stamp, Next: "settle", Must: true},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
		{
			Kind: createBatch, First: "watch",
			States: map[string]operation.State{
				"watch":  {Does: "see whether the creation was finished, and end it otherwise", Task: c.watch, Next: "keys", Or: []string{operation.Succeed}, Must: true},
				"keys":   {Does: "delete the keys that were written", Task: c.batchKeys, Next: "settle", Must: true},
				"settle": settle("leave"),
				"leave":  leave,
			},
		},
	}
}

func wait(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{After: overlay.Grace}, nil
}

// partition makes the query of a whole partition.
func partition(of func(cascade) string) func(context.Context, operation.Step) (store.Query, error) {
	return func(_ context.Context, s operation.Step) (store.Query, error) {
		var in cascade
		err := s.Input(&in)
		return store.Query{PK: of(in)}, err
	}
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

// bucketOf reads the bucket, and gives a zero record when it was deleted: its
// own cascade deletes everything then.
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

// leave takes the operation's entry out of the overlay, if it is still there.
func (c Cascades) leave(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, _, err := c.bucketOf(ctx, s)
	if err != nil {
		return operation.Result{}, err
	}
	var writes []store.Write
	if _, there := b.Changes[s.ID]; there {
		writes = append(writes, b.removeChange(s.ID))
	}
	if s.Kind == createBatch {
		writes = append(writes, store.Delete(keyBatchKey(s.ID)))
	}
	return operation.Result{Writes: writes}, nil
}
