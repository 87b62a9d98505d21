package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Notes are data that a process stores in addition to its table: the metadata of its
// objects. They are not part of the table, and the feed does not contain their changes.

func noteKey(key string) []byte { return append([]byte{notePrefix}, key...) }

// Note returns the note with a key, nil if there is none. The caller may change the returned slice.
func (b *Backend) Note(key string) ([]byte, error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.calls.done()
	value, closer, err := b.db.Get(noteKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		// the deletion of the note may not be on disk yet
		return nil, b.waitDurable(context.WithoutCancel(b.ctx), isNoteEffect)
	}
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = closer.Close() }()
	return append([]byte{}, value...), b.waitDurable(context.WithoutCancel(b.ctx), isNoteEffect)
}

// SetNotes stores and deletes notes, all or none. They are on disk when SetNotes returns. As with
// a commit, a start detects if the change is lost, although the feed does not contain the change.
func (b *Backend) SetNotes(set map[string][]byte, remove ...string) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	batch, c, err := b.applyNotes(set, remove)
	if err != nil {
		return err
	}
	return b.waitSynced(batch, c)
}

// noteEffect is the effect of a pending commit of notes. Its key is empty, so it concerns no item.
var noteEffect = store.Effect{}

func isNoteEffect(e store.Effect) bool { return e.Key == noteEffect.Key }

// applyNotes makes notes readable, as apply does for a transaction's
// effects. The change of notes also has a number, which is acknowledged.
func (b *Backend) applyNotes(set map[string][]byte, remove []string) (*pebble.Batch, *pendingCommit, error) {
	batch := b.db.NewBatch()
	var errs []error
	for _, key := range remove {
		errs = append(errs, batch.Delete(noteKey(key), nil))
	}
	for key, value := range set {
		errs = append(errs, batch.Set(noteKey(key), value, nil))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("note: %w", err), batch.Close())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.applyBatch(batch, []store.Effect{noteEffect})
}

// notePageSize is the number of notes that are read at a time.
const notePageSize = 500

// EachNote calls visit for the notes whose keys begin with prefix, in the order of
// their keys, until visit returns false or an error. visit can be slow and can use
// the Backend: a note that changes meanwhile is visited in its old or its new state.
func (b *Backend) EachNote(prefix string, visit func(key string, value []byte) (bool, error)) error {
	from := noteKey(prefix)
	upper := append(bytes.Clone(from), 0xff) // keys are UTF-8
	for {
		page, err := b.readNotes(from, upper)
		if err != nil {
			return err
		}
		for _, n := range page {
			if more, err := visit(n.key, n.value); err != nil || !more {
				return err
			}
		}
		if len(page) < notePageSize {
			return nil
		}
		from = append(noteKey(page[len(page)-1].key), 0)
	}
}

type noteEntry struct {
	key   string
	value []byte
}

// readNotes returns the first notes with keys from lower up to, but not including, upper: at most notePageSize.
func (b *Backend) readNotes(lower, upper []byte) (out []noteEntry, err error) {
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.calls.done()
	iterator, err := b.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = iterator.Close() }()
	for more := iterator.First(); more && len(out) < notePageSize; more = iterator.Next() {
		value, err := iterator.ValueAndErr()
		if err != nil {
			return nil, readError(err)
		}
		out = append(out, noteEntry{string(iterator.Key()[1:]), bytes.Clone(value)})
	}
	if err := iterator.Error(); err != nil {
		return nil, readError(err)
	}
	return out, b.waitDurable(context.WithoutCancel(b.ctx), isNoteEffect)
}

// Empty reports whether nothing was ever written to the store. A store whose items and notes were all deleted is not
// empty.
func (b *Backend) Empty() (bool, error) {
	if err := b.begin(); err != nil {
		return false, err
	}
	defer b.calls.done()
	last, err := b.number(lastKey)
	if err != nil {
		return false, readError(err)
	}
	empty := last == 0
	err = b.EachNote("", func(string, []byte) (bool, error) {
		empty = false
		return false, nil
	})
	return empty && err == nil, err
}
