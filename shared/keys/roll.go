package keys

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/store"
)

// RollKey gives every key of the consumer that has no expiry the expiry
// expiresOn, which may be past, and makes one new key without an expiry
// (contract 3.6b). Both show at once, whatever the number of keys.
func (s *Service) RollKey(ctx context.Context, at ConsumerAt, expiresOn time.Time) error {
	var wrong problems
	wrong.expiry("expiresOn", &expiresOn)
	if err := wrong.Err(); err != nil {
		return err
	}
	expiresOn = store.Instant(expiresOn)
	return s.table.Again(ctx, func(ctx context.Context) error {
		var rows []keyRecord
		v, err := s.loadForKeys(ctx, target{ConsumerAt: at, query: s.newest(&rows, store.Page{Limit: keysPerTransaction + 1})}, 1)
		if err != nil {
			return err
		}
		revision := v.consumer.Version + 1
		made, err := s.makeKeys(ctx, v, []NewKey{{}}, revision)
		if err != nil {
			return err
		}
		counted := []store.Change{store.Add(store.At("keyCount"), 1), store.Set(store.At("lastKeyId"), made[0].record.ID)}
		writes := append([]store.Write{
			audit.Record(ctx, v.consumer.resource(), made[0].record.resource()),
		}, createKeys(v.g, v.consumer.Name, made)...)
		all, err := s.allKeys(ctx, v, rows, keysPerTransaction)
		if err != nil {
			return err
		}
		if all.complete {
			for _, k := range all.keys {
				writes = append(writes, k.rolled(v, revision, expiresOn)...)
			}
			return s.table.Commit(ctx, append(writes, v.consumer.touch(v.g, counted...))...)
		}
		roll, err := s.largeChange(v, overlay.Change{
			Kind: overlay.Rolling, Revision: revision, ExpiresOn: &expiresOn,
			Except: v.bucket.Changes.Of(v.consumer.ID, overlay.Creating),
		})
		if err != nil {
			return err
		}
		roll = append(roll, v.consumer.touch(v.g, append(counted, v.largeChanged())...))
		return s.table.Commit(ctx, append(writes, roll...)...)
	})
}

// rolled are the writes that give a key an expiry unless it has one; in either
// case they hold only for the key as it was read.
func (k keyRecord) rolled(v view, revision int64, expiresOn time.Time) []store.Write {
	key := consumerKeyKey(v.g, v.consumer.Name, k.ID)
	asRead := store.Equal(store.At("revision"), k.Revision)
	if k.ExpiresOn != nil {
		return []store.Write{store.Check(key, asRead).Else(store.ErrStale)}
	}
	changes := []store.Change{
		store.Set(store.At("expiresOn"), expiresOn),
		store.Set(store.At("revision"), revision),
	}
	return []store.Write{
		store.Update(key, changes...).If(asRead).Else(store.ErrStale),
		store.Update(keyHashKey(k.Hash), changes...).If(store.Equal(store.At("keyId"), k.ID)).Else(store.ErrStale),
	}
}
