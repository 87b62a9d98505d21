package keys

import (
	"context"
	"errors"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// writeExpiry is the task that writes the expiry of a roll into the consumer's keys. Each key without an expiry gets
// the expiry that the overlay assigns to it.
func (c Cascades) writeExpiry(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, in, err := c.loadBucket(ctx, s)
	if err != nil || b.ID == "" {
		return operation.Result{}, err
	}
	return c.eachKey(ctx, s, func(k keyRecord, write operation.Group) error {
		state, exists := b.Changes.Apply(k.KeyState)
		if !exists || k.ConsumerID != in.ConsumerID || k.ExpiresOn != nil || state.ExpiresOn == nil {
			return nil
		}
		expiry := store.Set(store.At("expiresOn"), state.ExpiresOn)
		// Keep the expiry of a key that was changed after the roll.
		return write(
			store.Update(keyRecordKey(in.generation(), in.ConsumerName, k.ID), expiry).
				If(store.Equal(store.At("revision"), k.Revision)).If(store.Lacks(store.At("expiresOn"))),
			store.Update(keyHashKey(k.Hash), expiry).
				If(store.Equal(store.At("keyId"), k.ID)).If(store.Lacks(store.At("expiresOn"))))
	})
}

// writeMetadata is the task that copies the metadata from the operation's overlay entry to the consumer's keys that
// have older metadata. It does nothing if a newer entry has replaced the operation's entry.
func (c Cascades) writeMetadata(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, in, err := c.loadBucket(ctx, s)
	if err != nil {
		return operation.Result{}, err
	}
	entry, exists := b.Changes[s.ID]
	if !exists {
		return operation.Result{}, nil
	}
	return c.eachKey(ctx, s, func(k keyRecord, write operation.Group) error {
		if k.ConsumerID != in.ConsumerID {
			return nil
		}
		return write(k.metadataWrite(entry.Metadata, entry.Revision).If(store.Less(store.At("stamped"), entry.Revision)))
	})
}

var errBatchNotWriting = errors.New("keys: the batch is no longer being written")

// checkCreation is the task that marks a bulk creation as abandoned if it is still in progress after batchTimeout. If
// the creation is complete, the operation ends.
func (c Cascades) checkCreation(ctx context.Context, s operation.Step) (operation.Result, error) {
	var b batchRecord
	if err := c.table.Load(ctx, store.Get(keyBatchKey(s.ID), &b)); err != nil {
		return operation.Result{}, err
	}
	switch b.State {
	case batchWriting:
		return operation.Result{Writes: []store.Write{abandonWrite(s.ID)}}, nil
	case batchAbandoned:
		return operation.Result{}, nil
	case batchDone:
	}
	return operation.Result{Writes: []store.Write{store.Delete(keyBatchKey(s.ID))}, Next: operation.Succeed}, nil
}
