package overlay

import "slices"

// Apply gives a key's state under the changes, and whether the key is there at
// all.
func (c Changes) Apply(k KeyState) (state KeyState, there bool) {
	if k.Batch != "" && c[k.Batch].Kind == Creating || c.Deletes(k.ConsumerID) {
		return k, false
	}
	// Of several rolls the first one that met the key without an expiry gave it
	// one.
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

// rolls reports whether the change is a roll that gives the key its expiry.
func (c Change) rolls(k KeyState) bool {
	return c.Kind == Rolling && c.ConsumerID == k.ConsumerID &&
		k.ExpiresOn == nil && k.Revision < c.Revision && !slices.Contains(c.Except, k.Batch)
}

// Metadata gives what the gateway shall see for a key of the consumer that was
// stamped with metadata at the consumer's version stamped.
func (c Changes) Metadata(consumerID, metadata string, stamped int64) string {
	for _, change := range c {
		if change.Kind == Stamping && change.ConsumerID == consumerID && change.Revision > stamped {
			metadata, stamped = change.Metadata, change.Revision
		}
	}
	return metadata
}

// Deletes reports whether the consumer is deleted by one of the changes.
func (c Changes) Deletes(consumerID string) bool {
	for _, change := range c {
		if change.Kind == Deleting && change.ConsumerID == consumerID {
			return true
		}
	}
	return false
}

// Hides reports whether some of the keys that lie under the consumer's name may
// be hidden: those of a batch, or of an earlier consumer of this name.
func (c Changes) Hides(consumerName string) bool {
	for _, change := range c {
		if change.ConsumerName == consumerName && (change.Kind == Creating || change.Kind == Deleting) {
			return true
		}
	}
	return false
}

// Of lists the operations that write out changes of a kind for the consumer, in
// the order of their ids.
func (c Changes) Of(consumerID string, kind Kind) []string {
	var ids []string
	for id, change := range c {
		if change.Kind == kind && change.ConsumerID == consumerID {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}
