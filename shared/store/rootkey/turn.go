package rootkey

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// Status says which root keys there are.
type Status struct {
	// Number is that of the root key that writes, Other that of the second, 0 for none.
	Number, Other int
	// Operation is the rotation's that goes on, or that was last, "" for none. EndedOn is nil until it has.
	Operation string
	BeganOn   time.Time
	EndedOn   *time.Time
}

// Rotating reports whether a rotation goes on.
func (s Status) Rotating() bool { return s.Operation != "" && s.EndedOn == nil }

// Status reads which root keys there are.
func (s *Source) Status(ctx context.Context) (Status, error) {
	r, there, err := s.keys.record(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("read the root key's record: %w", err)
	}
	if !there && s.keys.first == nil {
		return Status{}, nil
	}
	return r.status(), nil
}

func (r rootKeyRecord) status() Status {
	out := Status{Number: max(1, r.Number)}
	if r.Other != nil {
		out.Other = max(1, r.Other.Number)
	}
	if r.Rotation != nil {
		out.Operation, out.BeganOn, out.EndedOn = r.Rotation.Operation, r.Rotation.BeganOn, r.Rotation.EndedOn
	}
	return out
}

// Begin makes the root key that follows, and gives the write after which every process learns of it and still writes with
// the one that is, with its entry in the history: by is who has asked for it. Conflict is the fault where a rotation goes on.
func (s *Source) Begin(ctx context.Context, operation, by string) ([]store.Write, error) {
	if _, err := s.Ring(ctx); err != nil { // which makes the first, where there is none
		return nil, err
	}
	r, there, err := s.keys.record(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the root key's record: %w", err)
	}
	if its := r.status(); its.Rotating() {
		return nil, fault.New(fault.Conflict, "A rotation of the root key is under way since %s (%s), and nothing was changed. Its status says how far it is; begin another one when it has ended.",
			its.BeganOn.UTC().Format(time.RFC3339), its.Operation)
	}
	if r.Also != nil {
		return nil, errGoingOver
	}
	s.Forget() // the successor is that of the root key that is in the table now
	next, its, before, err := s.Successor(ctx)
	if err != nil {
		return nil, err
	}
	now := store.Instant(s.keys.now())
	e := Event{Kind: Rotated, By: asked(by), Number: next.Number, BeganOn: now}
	if e.From, err = before.Fingerprint(); err == nil {
		e.To, err = its.Fingerprint()
	}
	if err != nil {
		return nil, err
	}
	after := r
	if !there {
		if after.Wrapped, err = s.keys.first(ctx); err != nil {
			return nil, err
		}
		after.CreatedOn = now
	}
	after.Other = &otherRecord{Wrapped: next.Wrapped, CreatedOn: now, Number: next.Number, Lineage: next.Lineage}
	after.Rotation = &rotationRecord{Operation: operation, BeganOn: now}
	return []store.Write{r.becomes(after, there), store.Create(e.at(operation), e)}, nil
}

// entry is the write of what has become of the rotation that goes on, in the history.
func (r rootKeyRecord) entry(changes ...store.Change) store.Write {
	return store.Upsert(Event{BeganOn: r.Rotation.BeganOn}.at(r.Rotation.Operation), changes...)
}

// becomes is the write of a changed record, which holds for what was read.
func (r rootKeyRecord) becomes(after rootKeyRecord, there bool) store.Write {
	after.Turns = r.Turns + 1
	w := store.Put(space.Key(), after.kept()).Else(store.ErrStale)
	switch {
	case !there:
		return w.If(store.Absent())
	case r.Turns == 0:
		return r.asRead(w.If(store.Lacks(store.At("turns"))))
	}
	return w.If(store.Equal(store.At("turns"), r.Turns))
}

// of reads the record of the rotation that is the operation's.
func (s *Source) of(ctx context.Context, operation string) (rootKeyRecord, error) {
	r, _, err := s.keys.record(ctx)
	switch {
	case err != nil:
		return r, fmt.Errorf("read the root key's record: %w", err)
	case r.Rotation == nil || r.Rotation.Operation != operation || r.Rotation.EndedOn != nil:
		return r, fmt.Errorf("rootkey: the rotation %s is not the one that goes on", operation)
	}
	return r, nil
}

// Switch gives the writes after which processes write with the new root key, as soon as they learn of it: none where that
// was done.
func (s *Source) Switch(ctx context.Context, operation string) ([]store.Write, error) {
	r, err := s.of(ctx, operation)
	if err != nil {
		return nil, err
	}
	o := r.Other
	if o == nil || max(1, r.Number) > max(1, o.Number) {
		return nil, nil
	}
	after := r
	after.Wrapped, after.CreatedOn, after.Number, after.Lineage = o.Wrapped, o.CreatedOn, o.Number, o.Lineage
	after.Other = &otherRecord{Wrapped: r.Wrapped, CreatedOn: r.CreatedOn, Number: max(1, r.Number), Lineage: r.Lineage}
	return []store.Write{r.becomes(after, true), r.entry(store.Set(store.At("switchedOn"), store.Instant(s.keys.now())))}, nil
}

// Retire gives the writes after which the old root key is known to no process, as soon as it learns of it: none where that
// was done.
func (s *Source) Retire(ctx context.Context, operation string) ([]store.Write, error) {
	r, err := s.of(ctx, operation)
	if err != nil || r.Other == nil {
		return nil, err
	}
	if max(1, r.Number) < max(1, r.Other.Number) {
		return nil, fmt.Errorf("rootkey: the rotation %s has not come to its new root key yet", operation)
	}
	after := r
	after.Other = nil
	return []store.Write{r.becomes(after, true), r.entry(store.Set(store.At("retiredOn"), store.Instant(s.keys.now())))}, nil
}

// Settle puts the key file in its place, where there is one, and gives the writes by which the rotation has ended, having renewed so much.
func (s *Source) Settle(ctx context.Context, operation string, of Counts) ([]store.Write, error) {
	r, err := s.of(ctx, operation)
	switch {
	case err != nil:
		return nil, err
	case r.Other != nil:
		return nil, fmt.Errorf("rootkey: the rotation %s has two root keys still", operation)
	}
	if s.files != nil {
		if s.settled != nil {
			if err := s.settled(string(r.Wrapped)); err != nil {
				return nil, err
			}
		}
		if err := s.files.Settle(ctx, r.Wrapped); err != nil {
			return nil, err
		}
	}
	after, rotation := r, *r.Rotation
	rotation.EndedOn = new(store.Instant(s.keys.now()))
	after.Rotation = &rotation
	return []store.Write{r.becomes(after, true), r.entry(store.Set(store.At("endedOn"), *rotation.EndedOn), store.Set(store.At("renewed"), of.Renewed),
		store.Set(store.At("objects"), of.Objects), store.Set(store.At("unreadable"), of.Unreadable))}, nil
}
