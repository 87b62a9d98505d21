package keys

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// batchTimeout is the maximum time of a bulk creation. After this time, its background operation (of the kind
// createBatch) abandons the creation and deletes the keys. batchTimeout is far longer than any request.
const batchTimeout = 2 * time.Minute

// undoTimeout is the maximum time of bulk.undo. It is short, because the client waits for the undo. For 1,000 keys,
// undo deletes the keys in 25 transactions.
const undoTimeout = 5 * time.Second

// keyBatchPrefix is the key prefix of the bulk creations in progress (batchRecord), by their ids.
const keyBatchPrefix store.KeyPrefix = "key-batch"

// batchRecord is the state of a batch: all keys of one bulk creation (type bulk). Each transaction that writes keys
// requires the state batchWriting, so that no key is written after the creation was abandoned.
type batchRecord struct {
	store.UnknownAttributes

	State batchState `dynamodbav:"state"`
}

type batchState string

func keyBatchKey(batchID string) store.Key { return keyBatchPrefix.Key(batchID) }

const (
	batchWriting   batchState = "writing"
	batchDone      batchState = "done"
	batchAbandoned batchState = "given-up"
)

// bulk is the creation of keys that do not fit into one transaction. It first adds an entry to the bucket's overlay,
// which hides the keys, and then writes the keys in portions. The commit that removes the entry makes all keys visible.
// If the process dies before that commit, the operation createBatch deletes the written keys.
type bulk struct {
	service *Service
	at      ConsumerLocator
	in      []NewKey

	batchID string
	view    view
	newKeys []newKey
	// written is the number of newKeys that are in the table.
	written int
}

// create creates the keys, all or none.
func (b *bulk) create(ctx context.Context) ([]Key, error) {
	if err := b.service.table.RunInTx(ctx, b.begin); err != nil {
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
	// If publish has deferred its commit (store.DeferCommit) and the commit is abandoned, undo deletes the keys.
	store.OnAbandon(ctx, b.undo)
	out := make([]Key, len(b.newKeys))
	for i, k := range b.newKeys {
		out[i] = k.withText()
	}
	return out, nil
}

// begin adds the overlay entry that hides the keys of the batch, and begins the operation createBatch. Both are
// committed before the first key is written.
func (b *bulk) begin(ctx context.Context) error {
	v, err := b.service.loadForKeys(ctx, target{ConsumerLocator: b.at}, len(b.in))
	if err != nil {
		return err
	}
	id := b.service.parts.IDs.Ordered("kop", 24)
	entry, err := v.addChange(id, overlay.Change{Kind: overlay.Creating})
	if err != nil {
		return err
	}
	created, err := b.service.prepareKeys(ctx, v, b.in, v.consumer.Version+1)
	if err != nil {
		return err
	}
	for i := range created {
		created[i].setBatch(id, v.bucket.Seq+1)
	}
	b.batchID, b.view, b.newKeys = id, v, created
	return b.service.table.Commit(ctx, entry,
		store.Create(keyBatchKey(id), batchRecord{State: batchWriting}),
		b.service.beginOperationAfter(batchTimeout, createBatch, id, v.consumer.ID, v.cascade()))
}

// setBatch adds the key to the batch with this id, so that the batch's overlay entry hides the key. seq is the bucket's
// Seq after this entry was added.
func (k *newKey) setBatch(id string, seq int64) {
	k.record.Batch, k.record.CreatedSeq = id, seq
	k.hash.Batch, k.hash.CreatedSeq = id, seq
}

// write stores the keys, one transaction for each portion.
func (b *bulk) write(ctx context.Context) error {
	for chunk := range slices.Chunk(b.newKeys, maxNewKeys(b.newKeys)) {
		writes := append([]store.Write{
			store.Check(keyBatchKey(b.batchID), store.Equal(store.At("state"), batchWriting)).Else(errBatchAbandoned),
		}, createKeyWrites(b.view.generation, b.view.consumer.Name, chunk)...)
		if err := b.service.table.Commit(ctx, writes...); err != nil {
			return err
		}
		b.written += len(chunk)
	}
	return nil
}

// undo marks the batch as abandoned and deletes the keys that were written, so that their texts can be used again
// immediately. undo ignores errors, because the operation createBatch does the same later. It ignores the end of ctx,
// because the end of the request may be the reason for the undo.
func (b *bulk) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	if b.service.table.Commit(ctx, abandonWrite(b.batchID)) != nil {
		return
	}
	for chunk := range slices.Chunk(b.newKeys[:b.written], keysPerTransaction) {
		var writes []store.Write
		for _, k := range chunk {
			writes = append(writes, k.record.deleteWrites(b.view.generation, b.view.consumer.Name)...)
		}
		if b.service.table.Commit(ctx, writes...) != nil {
			return
		}
	}
}

var errBatchAbandoned = fault.New(fault.Unavailable,
	"The keys could not be written in time, and none was made. Repeat the request.")

// publish makes all keys visible in one commit. If the consumer's metadata has changed since begin, publish first
// writes the new metadata into the keys.
func (b *bulk) publish(ctx context.Context) error {
	writtenMetadata := b.view.consumer.Metadata
	return b.service.table.RunInTx(ctx, func(ctx context.Context) error {
		v, err := b.service.loadForKeys(ctx, target{ConsumerLocator: b.at}, len(b.in))
		if err != nil {
			return err
		}
		if v.consumer.ID != b.view.consumer.ID {
			return errNoConsumer
		}
		if v.consumer.Metadata != writtenMetadata {
			if err := b.writeMetadata(ctx, v.consumer); err != nil {
				return err
			}
			writtenMetadata = v.consumer.Metadata
		}
		lastID := max(v.consumer.LastKeyID, b.newKeys[len(b.newKeys)-1].record.ID)
		return b.service.table.Commit(ctx,
			v.consumer.versionedWrite(v.generation,
				store.Add(store.At("keyCount"), int64(len(b.newKeys))),
				store.Set(store.At("lastKeyId"), lastID),
				v.seqChange()),
			store.Update(keyBatchKey(b.batchID), store.Set(store.At("state"), batchDone)).
				If(store.Equal(store.At("state"), batchWriting)).Else(errBatchAbandoned),
			v.bucket.removeChange(b.batchID).If(v.bucket.overlayUnchanged()),
			audit.Record(ctx, b.resource(v.consumer)),
		)
	})
}

// writeMetadata writes the consumer's metadata into the keys of the batch, which are not visible yet.
func (b *bulk) writeMetadata(ctx context.Context, c consumerRecord) error {
	for chunk := range slices.Chunk(b.newKeys, 2*keysPerTransaction) {
		writes := make([]store.Write, len(chunk))
		for i, k := range chunk {
			writes[i] = k.record.metadataWrite(c.Metadata, c.Version).Else(store.ErrStale)
		}
		if err := b.service.table.Commit(ctx, writes...); err != nil {
			return err
		}
	}
	return nil
}

// resource returns the consumer for the audit record, with the number of new keys and the first and last of their ids.
// A list of a thousand ids would be unreadable.
func (b *bulk) resource(c consumerRecord) audit.Resource {
	r := c.resource()
	r.Metadata["keys"] = strconv.Itoa(len(b.newKeys))
	r.Metadata["firstKeyId"] = b.newKeys[0].record.ID
	r.Metadata["lastKeyId"] = b.newKeys[len(b.newKeys)-1].record.ID
	return r
}

// abandonWrite returns the write that marks a batch as abandoned, which stops all further writes of its keys.
func abandonWrite(batch string) store.Write {
	return store.Update(keyBatchKey(batch), store.Set(store.At("state"), batchAbandoned)).
		If(store.Equal(store.At("state"), batchWriting)).Else(errBatchNotWriting)
}
