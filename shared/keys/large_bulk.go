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

// patience is how long a bulk creation may write before its operation takes it
// for dead and removes what there is. Far longer than a request lives.
const patience = 2 * time.Minute

// batchRecord says how far a bulk creation is. Each of its transactions holds
// only while it is writing, so that nothing is written once it was given up.
type batchRecord struct {
	State batchState `dynamodbav:"state"`
}

type batchState string

const (
	batchWriting batchState = "writing"
	batchDone    batchState = "done"
	batchGivenUp batchState = "given-up"
)

// bulk is one creation of more than atOnce keys.
type bulk struct {
	s  *Service
	at ConsumerAt
	in []NewKey

	id   string
	seen seen
	made []newKey
	// written is how many of made are in the table.
	written int
}

// create does the whole of it.
func (b *bulk) create(ctx context.Context) ([]Key, error) {
	if err := b.s.again(ctx, func() error { return b.mark(ctx) }); err != nil {
		return nil, err
	}
	err := b.write(ctx)
	if err == nil {
		err = b.show(ctx)
	}
	if err != nil {
		b.undo(ctx)
		return nil, err
	}
	out := make([]Key, len(b.made))
	for i, k := range b.made {
		out[i] = k.shown()
	}
	return out, nil
}

func (b *bulk) look() look { return look{consumer: b.at.Consumer, tags: b.at.Tags} }

// mark hides the batch before there is any of it.
func (b *bulk) mark(ctx context.Context) error {
	v, err := b.s.glance(ctx, b.at.BucketAt, b.look())
	if err != nil {
		return err
	}
	id := b.s.ids.Ordered("kop", 24)
	entry, err := v.addChange(id, overlay.Change{Kind: overlay.Creating})
	if err != nil {
		return err
	}
	made, err := b.s.makeKeys(ctx, v, b.in, v.consumer.Version+1, birth{batch: id, since: v.bucket.Seq + 1})
	if err != nil {
		return err
	}
	b.id, b.seen, b.made = id, v, made
	return b.s.table.Commit(ctx, entry,
		store.Create(keyBatchKey(id), batchRecord{State: batchWriting}),
		b.s.beginAfter(patience, createBatch, id, v.consumer.ID, v.cascade()))
}

// write stores the keys, in portions.
func (b *bulk) write(ctx context.Context) error {
	for portion := range slices.Chunk(b.made, atOnce) {
		writes := append([]store.Write{
			store.Check(keyBatchKey(b.id), store.Equal(store.At("state"), batchWriting)).Else(errGivenUp),
		}, createKeys(b.seen.g, b.seen.consumer.Name, portion)...)
		if err := b.s.table.Commit(ctx, writes...); err != nil {
			return err
		}
		b.written += len(portion)
	}
	return nil
}

// undo gives the batch up and removes what was written, so that its texts can be
// used again at once. The operation does the same later: whether this works
// changes nothing of the answer.
func (b *bulk) undo(ctx context.Context) {
	if b.s.table.Commit(ctx, giveUp(b.id)) != nil {
		return
	}
	for portion := range slices.Chunk(b.made[:b.written], atOnce) {
		var writes []store.Write
		for _, k := range portion {
			writes = append(writes, k.record.remove(b.seen.g, b.seen.consumer.Name)...)
		}
		if b.s.table.Commit(ctx, writes...) != nil {
			return
		}
	}
}

var errGivenUp = fault.New(fault.Unavailable, "The keys could not be written in time, and none was made. Repeat the request.")

// show makes all keys visible in one commit. The consumer may have changed
// since the mark: its new metadata is written into the keys first.
func (b *bulk) show(ctx context.Context) error {
	stamped := b.seen.consumer.Metadata
	v, fresh := b.seen, true
	return b.s.again(ctx, func() error {
		if !fresh {
			var err error
			if v, err = b.s.glance(ctx, b.at.BucketAt, b.look()); err != nil {
				return err
			}
			if v.consumer.ID != b.seen.consumer.ID {
				return errNoConsumer
			}
			if v.consumer.Metadata != stamped {
				if err := b.stamp(ctx, v.consumer); err != nil {
					return err
				}
				stamped = v.consumer.Metadata
			}
		}
		fresh = false
		last := max(v.consumer.LastKeyID, b.made[len(b.made)-1].record.ID)
		return b.s.table.Commit(ctx,
			v.consumer.touch(v.g,
				store.Add(store.At("keyCount"), int64(len(b.made))),
				store.Set(store.At("lastKeyId"), last)),
			store.Update(keyBatchKey(b.id), store.Set(store.At("state"), batchDone)).
				If(store.Equal(store.At("state"), batchWriting)).Else(errGivenUp),
			v.bucket.removeChange(b.id),
			audit.Record(ctx, b.resource(v.consumer)),
		)
	})
}

// stamp writes the consumer's metadata into keys that nobody sees yet.
func (b *bulk) stamp(ctx context.Context, c consumerRecord) error {
	for portion := range slices.Chunk(b.made, 2*atOnce) {
		writes := make([]store.Write, len(portion))
		for i, k := range portion {
			writes[i] = k.record.stamped(c.Metadata, c.Version).Else(errStale)
		}
		if err := b.s.table.Commit(ctx, writes...); err != nil {
			return err
		}
	}
	return nil
}

// resource tells the audit log the consumer and which keys it got: a thousand
// of them each by itself would make a record that nobody reads.
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
