package keys

import (
	"context"

	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/store"
)

// stamp are the writes that bring the consumer's new metadata to its keys: all
// of them, or an entry of the overlay that stands for them. An entry for
// earlier metadata is replaced, and its operation finds nothing to do. large says
// that it is an entry.
func (s *Service) stamp(ctx context.Context, v view, rows []keyRecord, metadata string) (writes []store.Write, large bool, err error) {
	revision := v.consumer.Version + 1
	pending := v.bucket.Changes.Of(v.consumer.ID, overlay.Stamping)
	all, err := s.allKeys(ctx, v, rows, keysPerTransaction)
	if err != nil {
		return nil, false, err
	}
	if all.complete && len(pending) == 0 {
		for _, k := range all.keys {
			writes = append(writes, k.stamped(metadata, revision).Else(store.ErrStale))
		}
		return writes, false, nil
	}
	writes, err = s.largeChange(v, overlay.Change{Kind: overlay.Stamping, Revision: revision, Metadata: metadata}, pending...)
	return writes, true, err
}

// stamped is the write that gives the gateway's record of a key new metadata.
func (k keyRecord) stamped(metadata string, revision int64) store.Write {
	return store.Update(keyHashKey(k.Hash),
		setOrRemove("metadata", metadata, metadata == ""),
		store.Set(store.At("stamped"), revision),
	).If(store.Equal(store.At("keyId"), k.ID))
}
