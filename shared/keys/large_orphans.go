package keys

import (
	"context"
	"errors"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// retryTextInUse makes a change that needs the texts of in for keys. A text in
// use may be that of an orphan, a key whose bucket or consumer was deleted and
// that is still in the table: orphans are deleted, and the change made again.
func (s *Service) retryTextInUse(ctx context.Context, in []NewKey, change func() error) error {
	err := change()
	if !errors.Is(err, errKeyInUse) {
		return err
	}
	switch found, deleteErr := s.deleteOrphans(ctx, in); {
	case deleteErr != nil:
		return deleteErr
	case !found:
		return err
	}
	return change()
}

// deleteOrphans deletes the hash records of orphans that have one of the texts,
// so that these are free, and reports whether there was any.
func (s *Service) deleteOrphans(ctx context.Context, in []NewKey) (bool, error) {
	var texts []store.Key
	for _, n := range in {
		if n.Text == "" {
			continue
		}
		at, err := s.elsewhere(ctx, n.Text, "")
		if err != nil {
			return false, err
		}
		texts = append(texts, at...)
	}
	found := false
	for portion := range slices.Chunk(texts, store.MaxWrites) {
		orphans, err := s.orphans(ctx, portion)
		if err != nil {
			return false, err
		}
		if err := s.table.Commit(ctx, orphans...); err != nil {
			return false, err
		}
		found = found || len(orphans) > 0
	}
	return found, nil
}

// orphans gives the writes that delete those of the hash records that are of
// orphans.
func (s *Service) orphans(ctx context.Context, portion []store.Key) ([]store.Write, error) {
	found := make([]hashRecord, len(portion))
	wanted := make([]*store.Wanted, len(portion))
	for i, key := range portion {
		wanted[i] = store.Want(key, &found[i]).Unchecked("the deletion asks whose it is")
	}
	if err := s.table.Load(ctx, wanted...); err != nil {
		return nil, err
	}
	// The keys may be of different buckets, of which each is read once.
	owners := make([]bucketRecord, len(found))
	var buckets []*store.Wanted
	for i, h := range found {
		if h.KeyID != "" {
			buckets = append(buckets, store.Want(bucketKey(h.AccountID, h.Bucket), &owners[i]).Unchecked("what was deleted stays so"))
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
		if h.KeyID != "" && h.orphaned(owners[i]) {
			writes = append(writes, store.Delete(portion[i]).If(store.Equal(store.At("keyId"), h.KeyID)).Else(errKeyInUse))
		}
	}
	return writes, nil
}

// orphaned reports whether the key's bucket or consumer was deleted.
func (h hashRecord) orphaned(b bucketRecord) bool {
	if !b.exists() || b.Generation != h.Generation {
		return true
	}
	return b.Changes.Deletes(h.ConsumerID)
}
