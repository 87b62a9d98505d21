package keys

import (
	"context"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// metadataWrites returns the writes that apply the consumer's new metadata to its keys: either a write for each key, or
// a large change with an overlay entry for all keys. The entry replaces entries with earlier metadata, so that their
// operations have nothing left to write. rows are the consumer's newest key records, one more than one transaction can
// change. large reports whether the writes are a large change.
func (s *Service) metadataWrites(
	ctx context.Context, v view, rows []keyRecord, metadata string,
) (writes []store.Write, large bool, err error) {
	revision := v.consumer.Version + 1
	pending := v.bucket.Changes.OperationIDs(v.consumer.ID, overlay.UpdatingMetadata)
	all, err := s.allKeys(ctx, v, rows, keysPerTransaction)
	if err != nil {
		return nil, false, err
	}
	if all.complete && len(pending) == 0 {
		for _, k := range all.keys {
			writes = append(writes, k.metadataWrite(metadata, revision).Else(store.ErrStale))
		}
		return writes, false, nil
	}
	writes, err = s.largeChange(v, overlay.Change{Kind: overlay.UpdatingMetadata, Revision: revision, Metadata: metadata},
		pending...)
	return writes, true, err
}

// metadataWrite returns the write that sets new metadata in the hash record of a key. revision becomes
// MetadataRevision.
func (k keyRecord) metadataWrite(metadata string, revision int64) store.Write {
	return store.Update(keyHashKey(k.Hash),
		setOrRemove("metadata", metadata, metadata == ""),
		store.Set(store.At("stamped"), revision),
	).If(store.Equal(store.At("keyId"), k.ID))
}
