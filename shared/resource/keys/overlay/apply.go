package overlay

import "slices"

// Apply returns the state of a key with the changes applied, and reports whether the key exists.
func (c Changes) Apply(k KeyState) (state KeyState, exists bool) {
	if k.Batch != "" && c[k.Batch].Kind == Creating || c.Deletes(k.ConsumerID) {
		return k, false
	}
	// If several rolls apply to the key, the earliest roll sets its expiry.
	var first *Change
	for _, roll := range c {
		if roll.rolls(k) && (first == nil || roll.Revision < first.Revision) {
			first = &roll
		}
	}
	if first != nil {
		k.ExpiresOn = first.ExpiresOn
	}
	return k, true
}

// rolls reports whether the change is a roll that applies to the key.
func (c Change) rolls(k KeyState) bool {
	return c.Kind == Rolling && c.ConsumerID == k.ConsumerID &&
		k.ExpiresOn == nil && k.Revision < c.Revision && !slices.Contains(c.ExceptBatches, k.Batch)
}

// Metadata returns the metadata that the gateway must use for a key of the consumer. metadata is the metadata in the
// key's record, which was written at the consumer's version revision.
func (c Changes) Metadata(consumerID, metadata string, revision int64) string {
	for _, change := range c {
		if change.Kind == UpdatingMetadata && change.ConsumerID == consumerID && change.Revision > revision {
			metadata, revision = change.Metadata, change.Revision
		}
	}
	return metadata
}

// Deletes reports whether one of the changes deletes the consumer.
func (c Changes) Deletes(consumerID string) bool {
	for _, change := range c {
		if change.Kind == Deleting && change.ConsumerID == consumerID {
			return true
		}
	}
	return false
}

// Hides reports whether changes may hide keys in the partition of a consumer name: keys of a batch, or keys of a
// deleted consumer with this name.
func (c Changes) Hides(consumerName string) bool {
	for _, change := range c {
		if change.ConsumerName == consumerName && (change.Kind == Creating || change.Kind == Deleting) {
			return true
		}
	}
	return false
}

// OperationIDs returns the ids of the operations that write changes of a kind for the consumer, sorted. The id of the
// operation of a Creating change is also the id of the batch (KeyState.Batch).
func (c Changes) OperationIDs(consumerID string, kind Kind) []string {
	var ids []string
	for id, change := range c {
		if change.Kind == kind && change.ConsumerID == consumerID {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
