package keys

import (
	"context"
	"errors"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"
)

// retryTextInUse runs a change that assigns texts to keys. The input has these texts. If the change fails because a
// text is in use, the text may belong to an orphan: a key that is still in the table although its bucket or consumer
// was deleted. If there are orphans with one of the texts, retryTextInUse deletes them and runs the change again.
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

// deleteOrphans deletes the hash records of orphans that have one of the texts of the input, so that the texts can be
// used again. It reports whether there were such orphans.
func (s *Service) deleteOrphans(ctx context.Context, in []NewKey) (bool, error) {
	var tableKeys []store.Key
	for _, n := range in {
		if n.Text == "" {
			continue
		}
		lookupKeys, err := s.otherLookupKeys(ctx, n.Text, "")
		if err != nil {
			return false, err
		}
		tableKeys = append(tableKeys, lookupKeys...)
	}
	found := false
	for chunk := range slices.Chunk(tableKeys, store.MaxWrites) {
		orphans, err := s.orphans(ctx, chunk)
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

// orphans reads the hash records with these table keys. It returns the writes that delete the hash records of orphans.
func (s *Service) orphans(ctx context.Context, tableKeys []store.Key) ([]store.Write, error) {
	found := make([]hashRecord, len(tableKeys))
	gets := make([]*store.ReadRequest, len(tableKeys))
	for i, key := range tableKeys {
		gets[i] = store.Get(key, &found[i]).Unchecked("the deletion checks the id of the record's key")
	}
	if err := s.table.Load(ctx, gets...); err != nil {
		return nil, err
	}
	// Load reads each bucket only once, even if several keys belong to it.
	owners := make([]bucketRecord, len(found))
	var bucketGets []*store.ReadRequest
	for i, h := range found {
		if h.KeyID != "" {
			bucketGets = append(bucketGets, store.Get(bucketKey(h.AccountID, h.Bucket),
				&owners[i]).Unchecked("a deleted bucket or consumer is never restored"))
		}
	}
	if len(bucketGets) == 0 {
		return nil, nil
	}
	if err := s.table.Load(ctx, bucketGets...); err != nil {
		return nil, err
	}
	var writes []store.Write
	for i, h := range found {
		if h.KeyID != "" && h.orphaned(owners[i]) {
			writes = append(writes, store.Delete(tableKeys[i]).If(store.Equal(store.At("keyId"), h.KeyID)).Else(errKeyInUse))
		}
	}
	return writes, nil
}
