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

	"github.com/gatewright/gatewright/shared/base/fault"
)

// readSet is the read set of an optimistic transaction. A change depends on records that were read, and a
// read of several items is not a snapshot. Another commit can happen between two reads, or between the last
// read and the commit of the change. Therefore the commit succeeds only if the records on which the change depends
// are unchanged. A readSet remembers each record that Load, Get and similar calls read under its context,
// and also that a record did not exist. For each of these records, Commit adds a condition that the record
// is unchanged: to the write of the record, or in a separate check if the commit does not write the record.
//
// ReadRequest.Unchecked declares, with the reason, that a commit does not depend on an item. Every query
// needs such a reason too, because a partition has no version to compare. Query.Unchecked says which
// conditions replace the comparison. Commit returns an error if there was a query without a reason.
type readSet struct {
	// outer is the readSet of the context to which this readSet was added, nil if that context had
	// none. For example, it is the readSet of a change that calls RunInTx for a part of its work.
	outer *readSet
	// retried is whether Table.RunInTx repeats the change if its commit is stale.
	retried bool

	mu    sync.Mutex
	reads map[Key]readItem
	// uncheckedPartition is the partition of a query without a reason in Query.Unchecked, "" if there is none.
	uncheckedPartition string
}

// readItem is a record in the state that was read, with a condition that holds as long as the record is unchanged.
// In a ReadCache, a record that a commit has written has no condition.
type readItem struct {
	item      Item
	unchanged Condition
}

type readSetKey struct{}

// WithReadSet returns a context whose commits succeed only if the records that were read under the context are
// unchanged, except by its own commits. If a record has changed, the commit changes nothing and returns a
// Throttled fault, so the client can repeat the request. Within RunInTx, it returns ErrStale instead.
func WithReadSet(ctx context.Context) context.Context { return withReadSet(ctx, false) }

func withReadSet(ctx context.Context, retried bool) context.Context {
	outer, _ := ctx.Value(readSetKey{}).(*readSet)
	return context.WithValue(ctx, readSetKey{}, &readSet{outer: outer, retried: retried, reads: map[Key]readItem{}})
}

// WithoutReadSet returns a context whose commits do not depend on the records that were read under ctx. These commits
// are not deferred, and do not change the ReadCache of ctx. reason says on which conditions the commits depend instead.
func WithoutReadSet(ctx context.Context, reason string) context.Context {
	if reason == "" {
		panic("store: a commit without conditions has to say why it may")
	}
	ctx = context.WithValue(ctx, readSetKey{}, (*readSet)(nil))
	ctx = context.WithValue(ctx, deferredCommitKey{}, (*DeferredCommit)(nil))
	ctx = context.WithValue(ctx, readCacheKey{}, (*ReadCache)(nil))
	return context.WithValue(ctx, cacheOnlyKey{}, (*ReadCache)(nil))
}

func readSetOf(ctx context.Context) *readSet {
	s, _ := ctx.Value(readSetKey{}).(*readSet)
	return s
}

// Unchecked excludes the item from the conditions of commits. reason says
// why: for example, the item never changes, or another condition covers it.
func (r *ReadRequest) Unchecked(reason string) *ReadRequest {
	r.unchecked = reason
	return r
}

// add remembers the items that a Load read. It returns an error that
// wraps ErrStale if an item has changed since an earlier read.
func (s *readSet) add(requests []*ReadRequest, items []Item) error {
	if s == nil {
		return nil
	}
	found := make(map[Key]Item, len(items))
	for _, item := range items {
		found[KeyOf(item)] = item
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range requests {
		if r.unchecked != "" {
			continue
		}
		item := found[r.key]
		earlier, known := s.reads[r.key]
		if known && !EqualItems(earlier.item, item) {
			return fmt.Errorf("read %s twice: %w", r.key.SK, ErrStale)
		}
		unchanged := unchanged(item, r.record)
		if known {
			unchanged = And(earlier.unchanged, unchanged)
		}
		s.reads[r.key] = readItem{item, unchanged}
	}
	return nil
}

// addQuery remembers a query without a reason in Query.Unchecked.
func (s *readSet) addQuery(q Query) {
	if s == nil || q.Unchecked != "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncheckedPartition = q.PK
}

// withConditions returns the writes with the conditions that the records in the read set and in its outer read sets
// are unchanged. It returns an error if there was a query without a reason in Query.Unchecked.
func (s *readSet) withConditions(writes []Write) ([]Write, error) {
	out := slices.Clone(writes)
	for ; s != nil; s = s.outer {
		s.mu.Lock()
		reads, uncheckedPartition := maps.Clone(s.reads), s.uncheckedPartition
		s.mu.Unlock()
		if uncheckedPartition != "" {
			return nil, fmt.Errorf("store: a commit was decided from a query of %s that no condition stands for",
				uncheckedPartition)
		}
		out = addConditions(out, reads)
	}
	return out, nil
}

// addConditions adds conditions to the writes of a transaction: the records in reads must be unchanged. out has the
// writes. addConditions changes out, and returns the resulting writes.
func addConditions(out []Write, reads map[Key]readItem) []Write {
	for _, key := range slices.SortedFunc(maps.Keys(reads), Key.compare) {
		i := slices.IndexFunc(out, func(w Write) bool { return w.Key == key })
		if i < 0 {
			out = append(out, Check(key, reads[key].unchanged).Else(ErrStale))
			continue
		}
		// ErrStale replaces the error of the write's other conditions, because these also depend on the record
		// that was read. If they do not hold, the next attempt reads the record again and finds out why.
		out[i] = out[i].If(reads[key].unchanged).Else(ErrStale)
		for _, name := range slices.Sorted(maps.Keys(out[i].unknown)) {
			// Another release may have changed the unknown attributes that this write restores.
			out[i] = out[i].If(comparison{path: At(name), op: "=", value: out[i].unknown[name]})
		}
	}
	return out
}

// forget forgets the records that a commit of this read set has changed.
func (s *readSet) forget(writes []Write) {
	for ; s != nil; s = s.outer {
		s.mu.Lock()
		for _, w := range writes {
			if w.Kind != CheckKind {
				delete(s.reads, w.Key)
			}
		}
		s.mu.Unlock()
	}
}

// stale returns the error of Commit for err, the error of a false condition. If err wraps ErrStale and RunInTx does
// not repeat the change, it returns a Throttled fault, otherwise err.
func (s *readSet) stale(err error) error {
	if s == nil || s.retried || !errors.Is(err, ErrStale) {
		return err
	}
	return contentionFault(err)
}

// contentionFault returns the fault of a change that failed because of concurrent changes.
func contentionFault(cause error) error {
	return throttledFault(cause, "Too many changes of the same thing at once. Nothing was changed: repeat the request "+
		"after the time in Retry-After.")
}

func throttledFault(cause error, public string) error {
	f := fault.New(fault.Throttled, "%s", public)
	f.RetryAfter = retryAfter
	return f.WithCause(cause)
}

func (k Key) compare(other Key) int {
	return cmp.Or(strings.Compare(k.PK, other.PK), strings.Compare(k.SK, other.SK))
}

// These attributes distinguish two states of a record. If a record has both attributes, package
// memory and the embedded store refuse a change that leaves the id and the version the same.
const (
	idAttribute      = "id"
	versionAttribute = "version"
)

// unchanged returns a condition that holds as long as item is as it was read into record. If item is nil, the
// condition is that the item does not exist. If record is nil, the condition is only that the item exists.
// Otherwise the condition compares the id and the version of item. If item lacks one of them, it compares
// instead the attributes for which record has fields. A map has no fields, so only the existence counts then.
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

// attributes returns the names of the attributes that the struct type t has fields for.
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

// VersionUnchanged reports whether a change of a record with an id and a version left these
// two the same. Commits would then not detect that the record has changed.
func VersionUnchanged(before, after Item) bool {
	for _, item := range []Item{before, after} {
		if item[idAttribute] == nil || item[versionAttribute] == nil {
			return false
		}
	}
	return equal(before[idAttribute], after[idAttribute]) && equal(before[versionAttribute], after[versionAttribute]) &&
		!EqualItems(before, after)
}
