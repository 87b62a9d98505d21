package keys

import (
	"context"
	"errors"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// roll writes the expiry that the overlay gives each key into the key.
func (c Cascades) roll(ctx context.Context, s operation.Step) (operation.Result, error) {
	b, in, err := c.bucketOf(ctx, s)
	if err != nil || b.ID == "" {
		return operation.Result{}, err
	}
	return c.walk(ctx, s, func(k keyRecord, write operation.Group) error {
		l, there := b.Changes.Apply(k.KeyState)
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
