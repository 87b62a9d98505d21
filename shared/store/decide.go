package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/fault"
)

// A change is decided from what was read, and a read of several items is no
// snapshot: another commit may lie between two of them, or between all of them
// and ours. So a commit holds only over what it was decided from. A decision is
// the unit of work that keeps this: it remembers each record that Load, Get and
// their like have read under its context, absent ones too, and Commit adds the
// condition that the record is as it was read, or a check of its own where
// nothing is written to it.
//
// What a commit does not depend on is declared so, with the reason, by
// Wanted.Unchecked; and so is every query, since a partition has no version to
// compare: Query.Unchecked says which conditions stand for it. A commit that
// was decided from a query without such a word is refused.
type decision struct {
	// outer is the decision that this one is an attempt of, nil for none.
	outer *decision
	// repeated is whether a stale commit is decided again (Table.Again).
	repeated bool

	mu    sync.Mutex
	reads map[Key]read
	// bare is the partition of a query that nothing stands for, "" for none.
	bare string
}

// read is a record as it was read: a condition that holds as long as it is so.
type read struct {
	item      Item
	unchanged Condition
}

type decisionKey struct{}

// Decide gives a context whose commits hold only over what is read under it. A
// commit that does not is a Throttled fault, unless the change is made within
// Again: nothing was changed, and the request may be repeated.
func Decide(ctx context.Context) context.Context { return deciding(ctx, false) }

func deciding(ctx context.Context, repeated bool) context.Context {
	outer, _ := ctx.Value(decisionKey{}).(*decision)
	return context.WithValue(ctx, decisionKey{}, &decision{outer: outer, repeated: repeated, reads: map[Key]read{}})
}

// Undecided gives a context whose commits depend on nothing that was read under
// ctx, and are no part of what is held or noted there; why says what they depend
// on instead.
func Undecided(ctx context.Context, why string) context.Context {
	if why == "" {
		panic("store: a commit without conditions has to say why it may")
	}
	ctx = context.WithValue(ctx, decisionKey{}, (*decision)(nil))
	ctx = context.WithValue(ctx, heldKey{}, (*Held)(nil))
	ctx = context.WithValue(ctx, notesKey{}, (*Notes)(nil))
	return context.WithValue(ctx, recalledKey{}, (*Notes)(nil))
}

func decisionOf(ctx context.Context) *decision {
	d, _ := ctx.Value(decisionKey{}).(*decision)
	return d
}

// Unchecked has no commit depend on the item, and says why none needs to: that
// it never changes, or which condition covers it.
func (w *Wanted) Unchecked(why string) *Wanted {
	w.unchecked = why
	return w
}

// note remembers what a Load has found.
func (d *decision) note(wanted []*Wanted, items []Item) error {
	if d == nil {
		return nil
	}
	found := make(map[Key]Item, len(items))
	for _, item := range items {
		found[KeyOf(item)] = item
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range wanted {
		if w.unchecked != "" {
			continue
		}
		item := found[w.key]
		earlier, twice := d.reads[w.key]
		if twice && !EqualItems(earlier.item, item) {
			return fmt.Errorf("read %s twice: %w", w.key.SK, ErrStale)
		}
		unchanged := unchanged(item, w.into)
		if twice {
			unchanged = And(earlier.unchanged, unchanged)
		}
		d.reads[w.key] = read{item, unchanged}
	}
	return nil
}

// noteQuery remembers a query that nothing stands for.
func (d *decision) noteQuery(q Query) {
	if d == nil || q.Unchecked != "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bare = q.PK
}

// covered gives writes with the conditions that what was read is unchanged.
func (d *decision) covered(writes []Write) ([]Write, error) {
	out := slices.Clone(writes)
	for ; d != nil; d = d.outer {
		d.mu.Lock()
		reads, bare := maps.Clone(d.reads), d.bare
		d.mu.Unlock()
		if bare != "" {
			return nil, fmt.Errorf("store: a commit was decided from a query of %s that no condition stands for", bare)
		}
		out = cover(out, reads)
	}
	return out, nil
}

// cover adds the conditions that what was read is unchanged.
func cover(out []Write, reads map[Key]read) []Write {
	for _, key := range slices.SortedFunc(maps.Keys(reads), Key.compare) {
		at := slices.IndexFunc(out, func(w Write) bool { return w.Key == key })
		if at < 0 {
			out = append(out, Check(key, reads[key].unchanged).Else(ErrStale))
			continue
		}
		// Whatever else the write asks for was decided from the record too:
		// the next attempt sees why it does not hold.
		out[at] = out[at].If(reads[key].unchanged).Else(ErrStale)
		for _, name := range slices.Sorted(maps.Keys(out[at].rest)) {
			// Another release may have changed what is put back here.
			out[at] = out[at].If(comparison{path: At(name), op: "=", value: out[at].rest[name]})
		}
	}
	return out
}

// made forgets the records that a commit has changed itself.
func (d *decision) made(writes []Write) {
	for ; d != nil; d = d.outer {
		d.mu.Lock()
		for _, w := range writes {
			if w.Kind != CheckKind {
				delete(d.reads, w.Key)
			}
		}
		d.mu.Unlock()
	}
}

// stale is what a commit is answered whose decision no longer holds.
func (d *decision) stale(err error) error {
	if d == nil || d.repeated || !errors.Is(err, ErrStale) {
		return err
	}
	return contended(err)
}

// contended is the fault of a change that others have kept from being made.
func contended(cause error) error {
	return refusedFor(cause, "Too many changes of the same thing at once. Nothing was changed: repeat the request after the time in Retry-After.")
}

func refusedFor(cause error, public string) error {
	f := fault.New(fault.Throttled, "%s", public)
	f.RetryAfter = retryAfter
	return f.Because(cause)
}

func (k Key) compare(other Key) int {
	return cmp.Or(strings.Compare(k.PK, other.PK), strings.Compare(k.SK, other.SK))
}

// Attributes by which two states of a record are told apart. The memory backend
// refuses a change of a record that has both and keeps its version.
const (
	idAttribute      = "id"
	versionAttribute = "version"
)

// unchanged holds for an item that is as it was read into record: nil asks only
// whether it is there.
func unchanged(item Item, record any) Condition {
	switch {
	case item == nil:
		return Absent()
	case record == nil:
		return Exists()
	}
	names := attributes(reflect.TypeOf(record))
	if item[idAttribute] != nil && item[versionAttribute] != nil {
		names = []string{idAttribute, versionAttribute}
	}
	parts := []Condition{Exists()}
	for _, name := range names {
		if v := item[name]; v != nil {
			parts = append(parts, comparison{path: At(name), op: "=", value: v})
		} else {
			parts = append(parts, Lacks(At(name)))
		}
	}
	return And(parts...)
}

// attributes lists what a record of the type is decoded from.
func attributes(t reflect.Type) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	var out []string
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("dynamodbav"), ",")
		switch {
		case name == "-" || !field.IsExported() && !field.Anonymous:
		case name == "" && field.Anonymous:
			out = append(out, attributes(field.Type)...)
		case name == "":
			out = append(out, field.Name)
		default:
			out = append(out, name)
		}
	}
	return out
}

// VersionKept reports whether a change left the version of a record that has
// one: who read it before would take it for unchanged.
func VersionKept(before, after Item) bool {
	for _, item := range []Item{before, after} {
		if item[idAttribute] == nil || item[versionAttribute] == nil {
			return false
		}
	}
	return equal(before[idAttribute], after[idAttribute]) && equal(before[versionAttribute], after[versionAttribute]) && !EqualItems(before, after)
}
