package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Notes are the items that were read under a context, and what its commits have
// made of them: what is known of the table without another look. They serve two
// questions. What would a read be answered after this change (Recall)? And is all
// that a read was answered from still so (Table.Settle)?
//
// They tell nothing about queries, and are no cache: each lives for one request.
type Notes struct {
	mu    sync.Mutex
	items map[Key]read // an item that is absent is noted as nil
}

// ErrUnknown is what reads answer under Recall for what the notes do not have.
var ErrUnknown = errors.New("store: not known without another look at the table")

type (
	notesKey    struct{}
	recalledKey struct{}
)

// Note gives a context under which all that is read by its key is noted, with
// what commits make of it.
func Note(ctx context.Context) (context.Context, *Notes) {
	n := &Notes{items: map[Key]read{}}
	return context.WithValue(ctx, notesKey{}, n), n
}

// Recall gives a context whose reads are answered by the notes alone. Queries,
// and items that are not noted, answer ErrUnknown.
func (n *Notes) Recall(ctx context.Context) context.Context {
	ctx = Undecided(ctx, "nothing is committed under it")
	return context.WithValue(ctx, recalledKey{}, n)
}

func notesOf(ctx context.Context) *Notes {
	n, _ := ctx.Value(notesKey{}).(*Notes)
	return n
}

func recalledOf(ctx context.Context) *Notes {
	n, _ := ctx.Value(recalledKey{}).(*Notes)
	return n
}

// note remembers what a Load has found, whether or not a commit depends on it.
func (n *Notes) note(wanted []*Wanted, items []Item) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range wanted {
		var item Item
		if at := slices.IndexFunc(items, func(i Item) bool { return KeyOf(i) == w.key }); at >= 0 {
			item = items[at]
		}
		n.items[w.key] = read{item, unchanged(item, w.into)}
	}
}

// made remembers what a commit has made of the items.
func (n *Notes) made(writes []Write) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range writes {
		before, known := n.items[w.Key]
		switch {
		case w.Kind == CheckKind:
			continue
		case w.Kind == UpdateKind && !known:
			continue
		}
		after, err := w.Apply(before.item)
		if err != nil {
			delete(n.items, w.Key)
			continue
		}
		n.items[w.Key] = read{item: after}
	}
}

// Has reports whether an item is noted that is there. A nil Notes has none.
func (n *Notes) Has(key Key) bool {
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.items[key].item != nil
}

// read answers for the backend.
func (n *Notes) read(keys []Key) ([]Item, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []Item
	for _, key := range keys {
		r, known := n.items[key]
		switch {
		case !known:
			return nil, ErrUnknown
		case r.item != nil:
			out = append(out, r.item)
		}
	}
	return out, nil
}

// covered adds the conditions that all that was noted is unchanged.
func (n *Notes) covered(writes []Write) []Write {
	if n == nil {
		return writes
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return cover(writes, n.items)
}
