package keys

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// RollKey sets the expiry expiresOn, which may be in the past, on every key of the consumer that has no expiry. It also
// creates one new key without an expiry (contract 3.6b). Both changes become visible at the same time, for any number
// of keys. RollKey returns Forbidden if the consumer would exceed limits.ConsumerKeys, and Throttled if the roll is a
// large change while too many large changes of the bucket are in progress.
func (s *Service) RollKey(ctx context.Context, at ConsumerLocator, expiresOn time.Time) error {
	var invalid problems
	invalid.expiry("expiresOn", &expiresOn)
	if err := invalid.Err(); err != nil {
		return err
	}
	expiresOn = store.Instant(expiresOn)
	return s.table.RunInTx(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		v, err := s.loadForKeys(ctx,
			target{ConsumerLocator: at, query: s.newestQuery(&rows, store.Page{Limit: keysPerTransaction + 1})}, 1)
		if err != nil {
			return err
		}
		revision := v.consumer.Version + 1
		created, err := s.prepareKeys(ctx, v, []NewKey{{}}, revision)
		if err != nil {
			return err
		}
		keyCountChanges := []store.Change{
			store.Add(store.At("keyCount"), 1),
			store.Set(store.At("lastKeyId"), created[0].record.ID),
		}
		writes := append([]store.Write{
			audit.Record(ctx, v.consumer.resource(), created[0].record.resource()),
		}, createKeyWrites(v.generation, v.consumer.Name, created)...)
		all, err := s.allKeys(ctx, v, rows, keysPerTransaction)
		if err != nil {
			return err
		}
		if all.complete {
			for _, k := range all.keys {
				writes = append(writes, k.rollWrites(v, revision, expiresOn)...)
			}
			return s.table.Commit(ctx, append(writes, v.consumer.versionedWrite(v.generation, keyCountChanges...))...)
		}
		roll, err := s.largeChange(v, overlay.Change{
			Kind: overlay.Rolling, Revision: revision, ExpiresOn: &expiresOn,
			ExceptBatches: v.bucket.Changes.OperationIDs(v.consumer.ID, overlay.Creating),
		})
		if err != nil {
			return err
		}
		roll = append(roll, v.consumer.versionedWrite(v.generation, append(keyCountChanges, v.seqChange())...))
		return s.table.Commit(ctx, append(writes, roll...)...)
	})
}

// rollWrites returns the writes that set an expiry on a key. If the key already has one, they only check the key. The
// writes fail if the key has changed since it was read.
func (k keyRecord) rollWrites(v view, revision int64, expiresOn time.Time) []store.Write {
	key := keyRecordKey(v.generation, v.consumer.Name, k.ID)
	unchanged := store.Equal(store.At("revision"), k.Revision)
	if k.ExpiresOn != nil {
		return []store.Write{store.Check(key, unchanged).Else(store.ErrStale)}
	}
	changes := []store.Change{
		store.Set(store.At("expiresOn"), expiresOn),
		store.Set(store.At("revision"), revision),
	}
	return []store.Write{
		store.Update(key, changes...).If(unchanged).Else(store.ErrStale),
		store.Update(keyHashKey(k.Hash), changes...).If(store.Equal(store.At("keyId"), k.ID)).Else(store.ErrStale),
	}
}
