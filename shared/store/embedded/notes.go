package embedded

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble"
)

// Notes are what else one process has to keep beside its table: the metadata of
// its objects. They are no part of the table, and no change of one is in the feed.

func noteKey(key string) []byte { return append([]byte{noteSpace}, key...) }

// Note gives what is noted under a key, nil for nothing. It may be changed.
func (b *Backend) Note(key string) ([]byte, error) {
	value, closer, err := b.db.Get(noteKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(err)
	}
	defer func() { _ = closer.Close() }()
	return append([]byte{}, value...), nil
}

// SetNotes notes and removes, all or nothing; it is on disk when it is answered.
func (b *Backend) SetNotes(set map[string][]byte, remove ...string) error {
	if err := b.usable(); err != nil {
		return err
	}
	batch := b.db.NewBatch()
	defer func() { _ = batch.Close() }()
	for _, key := range remove {
		if err := batch.Delete(noteKey(key), nil); err != nil {
			return fmt.Errorf("remove a note: %w", err)
		}
	}
	for key, value := range set {
		if err := batch.Set(noteKey(key), value, nil); err != nil {
			return fmt.Errorf("note: %w", err)
		}
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return b.fail(err)
	}
	return b.usable()
}

// EachNote calls visit for the notes under the keys that begin with prefix, in
// their order, as they are at one moment, until it answers false or an error.
// What it is given is only good until it returns.
func (b *Backend) EachNote(prefix string, visit func(key string, value []byte) (bool, error)) error {
	lower := noteKey(prefix)
	upper := append(bytes.Clone(lower), 0xff) // keys are UTF-8
	notes, err := b.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return damaged(err)
	}
	defer func() { _ = notes.Close() }()
	for more := notes.First(); more; more = notes.Next() {
		value, err := notes.ValueAndErr()
		if err != nil {
			return damaged(err)
		}
		if goOn, err := visit(string(notes.Key()[1:]), value); err != nil || !goOn {
			return err
		}
	}
	if err := notes.Error(); err != nil {
		return damaged(err)
	}
	return nil
}
