package keys

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/store"
)

// batchTimeout is how long a bulk creation may write before its operation gives
// it up and deletes what there is. It is far longer than any request.
const batchTimeout = 2 * time.Minute

// undoTimeout bounds the undoing of a bulk creation, which its caller waits for.
// 1,000 keys are 25 transactions.
const undoTimeout = 5 * time.Second

// batchRecord says how far a bulk creation is. Each of its transactions holds
// only while it is writing, so that nothing is written once it was given up.
type batchRecord struct {
	store.Rest

	State batchState `dynamodbav:"state"`
}

type batchState string

const (
	batchWriting batchState = "writing"
	batchDone    batchState = "done"
	batchGivenUp batchState = "given-up"
)

// bulk is one creation of more than keysPerTransaction keys. It writes them in
// portions under an entry of the bucket's overlay that hides them; the commit
// that removes the entry makes them all visible. When the process dies before,
// an operation deletes what was written.
type bulk struct {
	s  *Service
	at ConsumerAt
	in []NewKey

	id   string
	view view
	made []newKey
	// written is how many of made are in the table.
	written int
}

// create makes the keys, all or none.
func (b *bulk) create(ctx context.Context) ([]Key, error) {
	if err := b.s.table.Again(ctx, b.begin); err != nil {
		return nil, err
	}
	err := b.write(ctx)
	if err == nil {
		err = b.publish(ctx)
	}
	if err != nil {
		b.undo(ctx)
		return nil, err
	}
	store.OnAbandon(ctx, b.undo)
	out := make([]Key, len(b.made))
	for i, k := range b.made {
		out[i] = k.withText()
	}
	return out, nil
}

// begin adds the entry that hides the batch, before there is any of it.
func (b *bulk) begin(ctx context.Context) error {
	v, err := b.s.loadForKeys(ctx, target{ConsumerAt: b.at}, len(b.in))
	if err != nil {
		return err
	}
	id := b.s.parts.IDs.Ordered("kop", 24)
	entry, err := v.addChange(id, overlay.Change{Kind: overlay.Creating})
	if err != nil {
		return err
	}
	made, err := b.s.makeKeys(ctx, v, b.in, v.consumer.Version+1)
	if err != nil {
		return err
	}
	for i := range made {
		made[i].inBatch(id, v.bucket.Seq+1)
	}
	b.id, b.view, b.made = id, v, made
	return b.s.table.Commit(ctx, entry,
		store.Create(keyBatchKey(id), batchRecord{State: batchWriting}),
		b.s.beginAfter(batchTimeout, createBatch, id, v.consumer.ID, v.cascade()))
}

// inBatch has the key hidden by the batch, which began as the bucket's change
// number since.
func (k *newKey) inBatch(id string, since int64) {
	k.record.Batch, k.record.Since = id, since
	k.hash.Batch, k.hash.Since = id, since
}

// write stores the keys, in portions.
func (b *bulk) write(ctx context.Context) error {
	for portion := range slices.Chunk(b.made, perTransaction(b.made)) {
		writes := append([]store.Write{
			store.Check(keyBatchKey(b.id), store.Equal(store.At("state"), batchWriting)).Else(errGivenUp),
		}, createKeys(b.view.g, b.view.consumer.Name, portion)...)
		if err := b.s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		b.written += len(portion)
	}
	return nil
}

// undo gives the batch up and removes what was written, so that its texts can be
// used again at once. The operation does the same later: whether this works
// changes nothing of the answer. It outlives the request, whose end may be why
// there is something to undo.
func (b *bulk) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if b.s.table.Commit(ctx, giveUp(b.id)) != nil {
		return
	}
	for portion := range slices.Chunk(b.made[:b.written], keysPerTransaction) {
		var writes []store.Write
		for _, k := range portion {
			writes = append(writes, k.record.remove(b.view.g, b.view.consumer.Name)...)
		}
		if b.s.table.Commit(ctx, writes...) != nil {
			return
		}
	}
}

var errGivenUp = fault.New(fault.Unavailable, "The keys could not be written in time, and none was made. Repeat the request.")

// publish makes all keys visible in one commit. The consumer may have changed
// since begin: its new metadata is written into the keys first.
func (b *bulk) publish(ctx context.Context) error {
	stamped := b.view.consumer.Metadata
	return b.s.table.Again(ctx, func(ctx context.Context) error {
		v, err := b.s.loadForKeys(ctx, target{ConsumerAt: b.at}, len(b.in))
		if err != nil {
			return err
		}
		if v.consumer.ID != b.view.consumer.ID {
			return errNoConsumer
		}
		if v.consumer.Metadata != stamped {
			if err := b.stamp(ctx, v.consumer); err != nil {
				return err
			}
			stamped = v.consumer.Metadata
		}
		last := max(v.consumer.LastKeyID, b.made[len(b.made)-1].record.ID)
		return b.s.table.Commit(ctx,
			v.consumer.touch(v.g,
				store.Add(store.At("keyCount"), int64(len(b.made))),
				store.Set(store.At("lastKeyId"), last),
				v.largeChanged()),
			store.Update(keyBatchKey(b.id), store.Set(store.At("state"), batchDone)).
				If(store.Equal(store.At("state"), batchWriting)).Else(errGivenUp),
			v.bucket.removeChange(b.id).If(v.bucket.unchanged()),
			audit.Record(ctx, b.resource(v.consumer)),
		)
	})
}

// stamp writes the consumer's metadata into keys that nobody sees yet.
func (b *bulk) stamp(ctx context.Context, c consumerRecord) error {
	for portion := range slices.Chunk(b.made, 2*keysPerTransaction) {
		writes := make([]store.Write, len(portion))
		for i, k := range portion {
			writes[i] = k.record.stamped(c.Metadata, c.Version).Else(store.ErrStale)
		}
		if err := b.s.table.Commit(ctx, writes...); err != nil {
			return err
		}
	}
	return nil
}

// resource is the consumer with the range of its new keys, for the audit record:
// a thousand resources would make one that nobody reads.
func (b *bulk) resource(c consumerRecord) audit.Resource {
	r := c.resource()
	r.Metadata["keys"] = strconv.Itoa(len(b.made))
	r.Metadata["firstKeyId"] = b.made[0].record.ID
	r.Metadata["lastKeyId"] = b.made[len(b.made)-1].record.ID
	return r
}

// giveUp is the write after which nothing more of a batch is written.
func giveUp(batch string) store.Write {
	return store.Update(keyBatchKey(batch), store.Set(store.At("state"), batchGivenUp)).
		If(store.Equal(store.At("state"), batchWriting)).Else(errNotWriting)
}
