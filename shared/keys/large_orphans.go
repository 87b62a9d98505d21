package keys

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// retaking makes a change that takes the texts of keys. A text that is in use
// may be that of a key which is gone for every reader and only not yet swept
// from the table: such keys are removed, and the change is made once more.
func (s *Service) retaking(ctx context.Context, in []NewKey, change func() error) error {
	err := change()
	if !errors.Is(err, errKeyInUse) {
		return err
	}
	switch swept, sweepErr := s.sweepDead(ctx, in); {
	case sweepErr != nil:
		return sweepErr
	case !swept:
		return err
	}
	return change()
}

// sweepDead removes what is left of dead keys that have one of the texts, and
// reports whether there was any.
func (s *Service) sweepDead(ctx context.Context, in []NewKey) (bool, error) {
	var texts []store.Key
	for _, n := range in {
		if n.Text == "" {
			continue
		}
		hash, err := s.hash.Hash(ctx, n.Text)
		if err != nil {
			return false, fmt.Errorf("hash an API key: %w", err)
		}
		texts = append(texts, keyHashKey(hash))
	}
	swept := false
	for portion := range slices.Chunk(texts, store.MaxWrites) {
		dead, err := s.dead(ctx, portion)
		if err != nil {
			return false, err
		}
		if err := s.table.Commit(ctx, dead...); err != nil {
			return false, err
		}
		swept = swept || len(dead) > 0
	}
	return swept, nil
}

// dead gives the writes that remove those of the keys whose bucket or consumer
// was deleted.
func (s *Service) dead(ctx context.Context, portion []store.Key) ([]store.Write, error) {
	found := make([]hashRecord, len(portion))
	wanted := make([]*store.Wanted, len(portion))
	for i, key := range portion {
		wanted[i] = store.Want(key, &found[i])
	}
	if err := s.table.Load(ctx, wanted...); err != nil {
		return nil, err
	}
	// The keys may be of different buckets, of which each is read once.
	owners := make([]bucketRecord, len(found))
	var buckets []*store.Wanted
	for i, h := range found {
		if h.KeyID != "" {
			buckets = append(buckets, store.Want(bucketKey(h.AccountID, h.Bucket), &owners[i]))
		}
	}
	if len(buckets) == 0 {
		return nil, nil
	}
	if err := s.table.Load(ctx, buckets...); err != nil {
		return nil, err
	}
	var writes []store.Write
	for i, h := range found {
		if h.KeyID != "" && h.dead(owners[i]) {
			writes = append(writes, store.Delete(portion[i]).If(store.Equal(store.At("keyId"), h.KeyID)).Else(errKeyInUse))
		}
	}
	return writes, nil
}

// dead reports whether the key's bucket or consumer was deleted.
func (h hashRecord) dead(b bucketRecord) bool {
	if !b.exists() || b.Generation != h.Generation {
		return true
	}
	return b.Changes.Deletes(h.ConsumerID)
}
