package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/store"
)

// Notes are what else one process has to keep beside its table: the metadata of
// its objects. They are no part of the table, and no change of one is in the feed.

func noteKey(key string) []byte { return append([]byte{noteSpace}, key...) }

// Note gives what is noted under a key, nil for nothing. It may be changed.
func (b *Backend) Note(key string) ([]byte, error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.calls.done()
	value, closer, err := b.db.Get(noteKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, b.settled(context.WithoutCancel(b.life), isOfNotes) // its removal may not be on disk yet
	}
	if err != nil {
		return nil, damaged(err)
	}
	defer func() { _ = closer.Close() }()
	return append([]byte{}, value...), b.settled(context.WithoutCancel(b.life), isOfNotes)
}

// SetNotes notes and removes, all or nothing; it is on disk when it is answered. It
// is a change as a commit is, though the feed has none of it: a start that does not
// find it says so.
func (b *Backend) SetNotes(set map[string][]byte, remove ...string) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	batch, f, err := b.applyNotes(set, remove)
	if err != nil {
		return err
	}
	return b.land(batch, f)
}

// ofNotes is what a flight of notes touches: no item has its key.
var ofNotes = store.Effect{}

func isOfNotes(e store.Effect) bool { return e.Key == ofNotes.Key }

// applyNotes makes notes readable, as apply does a transaction's effects: they are
// promised by the number of the last change, too.
func (b *Backend) applyNotes(set map[string][]byte, remove []string) (*pebble.Batch, *flight, error) {
	batch := b.db.NewBatch()
	var all []error
	for _, key := range remove {
		all = append(all, batch.Delete(noteKey(key), nil))
	}
	for key, value := range set {
		all = append(all, batch.Set(noteKey(key), value, nil))
	}
	if err := errors.Join(all...); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("note: %w", err), batch.Close())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.launch(batch, []store.Effect{ofNotes})
}

// notesAtOnce is how many notes are read before they are visited.
const notesAtOnce = 500

// EachNote calls visit for the notes under the keys that begin with prefix, in
// their order, until it answers false or an error. It may take its time and use the
// Backend: what changes meanwhile is visited as it was or as it is.
func (b *Backend) EachNote(prefix string, visit func(key string, value []byte) (bool, error)) error {
	from := noteKey(prefix)
	upper := append(bytes.Clone(from), 0xff) // keys are UTF-8
	for {
		page, err := b.someNotes(from, upper)
		if err != nil {
			return err
		}
		for _, n := range page {
			if goOn, err := visit(n.key, n.value); err != nil || !goOn {
				return err
			}
		}
		if len(page) < notesAtOnce {
			return nil
		}
		from = append(noteKey(page[len(page)-1].key), 0)
	}
}

type noted struct {
	key   string
	value []byte
}

// someNotes are the first ones from lower on.
func (b *Backend) someNotes(lower, upper []byte) (out []noted, err error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.calls.done()
	notes, err := b.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, damaged(err)
	}
	defer func() { _ = notes.Close() }()
	for more := notes.First(); more && len(out) < notesAtOnce; more = notes.Next() {
		value, err := notes.ValueAndErr()
		if err != nil {
			return nil, damaged(err)
		}
		out = append(out, noted{string(notes.Key()[1:]), bytes.Clone(value)})
	}
	if err := notes.Error(); err != nil {
		return nil, damaged(err)
	}
	return out, b.settled(context.WithoutCancel(b.life), isOfNotes)
}

// Empty reports whether nothing was ever stored: no item, and no note.
func (b *Backend) Empty() (bool, error) {
	if err := b.begin(); err != nil {
		return false, err
	}
	defer b.calls.done()
	last, err := b.number(lastKey)
	if err != nil {
		return false, damaged(err)
	}
	empty := last == 0
	err = b.EachNote("", func(string, []byte) (bool, error) {
		empty = false
		return false, nil
	})
	return empty && err == nil, err
}
