package rootkey

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Status describes the current root keys.
type Status struct {
	// Number is the number of the current root key, which seals new data.
	// Other is the number of the second root key, 0 if there is none.
	Number, Other int
	// Operation is the operation of the current rotation, or of the previous one if none is in progress. It is "" if
	// there was no rotation. EndedOn is nil until the rotation ends.
	Operation string
	BeganOn   time.Time
	EndedOn   *time.Time
}

// Rotating reports whether a rotation is in progress.
func (s Status) Rotating() bool { return s.Operation != "" && s.EndedOn == nil }

// Status reads the status of the root keys.
func (s *Source) Status(ctx context.Context) (Status, error) {
	r, exists, err := s.keys.record(ctx)
	if err != nil {
		return Status{}, fmt.Errorf("read the root key's record: %w", err)
	}
	if !exists && s.keys.firstKey == nil {
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

// Begin creates the next root key for the rotation of an operation. It returns two writes: one announces the
// key to every process, the other creates the history entry. by is the name of the operator who starts it.
// After these writes, processes still seal with the current root key. Fault: Conflict if a rotation is in
// progress, or if the installation is changing to another KMS key.
func (s *Source) Begin(ctx context.Context, operation, by string) ([]store.Write, error) {
	if _, err := s.Ring(ctx); err != nil { // creates the first root key if there is none
		return nil, err
	}
	r, exists, err := s.keys.record(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the root key's record: %w", err)
	}
	if status := r.status(); status.Rotating() {
		return nil, fault.New(fault.Conflict, "A rotation of the root key is under way since %s (%s), and nothing was "+
			"changed. Its status says how far it is; begin another one when it has ended.",
			status.BeganOn.UTC().Format(time.RFC3339), status.Operation)
	}
	if r.WrappedAlternate != nil {
		return nil, errRewrapping
	}
	s.Expire() // the successor must follow the root key that is in the table now
	next, successor, current, err := s.Successor(ctx)
	if err != nil {
		return nil, err
	}
	now := store.Instant(s.keys.now())
	e := Event{Kind: KeyRotated, By: printableName(by), Number: next.Number, BeganOn: now}
	if e.From, err = current.Fingerprint(); err == nil {
		e.To, err = successor.Fingerprint()
	}
	if err != nil {
		return nil, err
	}
	after := r
	if !exists {
		if after.Wrapped, err = s.keys.firstKey(ctx); err != nil {
			return nil, err
		}
		after.CreatedOn = now
	}
	after.Other = &otherRecord{Wrapped: next.Wrapped, CreatedOn: now, Number: next.Number, Lineage: next.Lineage}
	after.Rotation = &rotationRecord{Operation: operation, BeganOn: now}
	return []store.Write{r.replaceWith(after, exists), store.Create(e.key(operation), e)}, nil
}

// updateHistory returns the write that updates the history entry of the current rotation.
func (r rootKeyRecord) updateHistory(changes ...store.Change) store.Write {
	return store.Upsert(Event{BeganOn: r.Rotation.BeganOn}.key(r.Rotation.Operation), changes...)
}

// replaceWith returns the write that replaces r with after, on the condition that the record in the table is unchanged.
func (r rootKeyRecord) replaceWith(after rootKeyRecord, exists bool) store.Write {
	after.Revision = r.Revision + 1
	w := store.Put(recordPrefix.Key(), after.storedForm()).Else(store.ErrStale)
	switch {
	case !exists:
		return w.If(store.Absent())
	case r.Revision == 0:
		return r.ifUnchanged(w.If(store.Lacks(store.At("turns"))))
	}
	return w.If(store.Equal(store.At("turns"), r.Revision))
}

// activeRotation reads the record. It returns an error unless the rotation of this operation is in progress.
func (s *Source) activeRotation(ctx context.Context, operation string) (rootKeyRecord, error) {
	r, _, err := s.keys.record(ctx)
	switch {
	case err != nil:
		return r, fmt.Errorf("read the root key's record: %w", err)
	case r.Rotation == nil || r.Rotation.Operation != operation || r.Rotation.EndedOn != nil:
		return r, fmt.Errorf("rootkey: the rotation %s is not the one that goes on", operation)
	}
	return r, nil
}

// Switch returns the writes that make each process seal and hash with the new root key, as soon
// as the process reads the record again. It returns no writes if the switch was made before.
func (s *Source) Switch(ctx context.Context, operation string) ([]store.Write, error) {
	r, err := s.activeRotation(ctx, operation)
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
	return []store.Write{
		r.replaceWith(after, true),
		r.updateHistory(store.Set(store.At("switchedOn"), store.Instant(s.keys.now()))),
	}, nil
}

// Retire returns the writes that remove the old root key. Each process forgets it as soon as the
// process reads the record again. It returns no writes if the old root key was removed before.
func (s *Source) Retire(ctx context.Context, operation string) ([]store.Write, error) {
	r, err := s.activeRotation(ctx, operation)
	if err != nil || r.Other == nil {
		return nil, err
	}
	if max(1, r.Number) < max(1, r.Other.Number) {
		return nil, fmt.Errorf("rootkey: the rotation %s has not come to its new root key yet", operation)
	}
	after := r
	after.Other = nil
	return []store.Write{
		r.replaceWith(after, true),
		r.updateHistory(store.Set(store.At("retiredOn"), store.Instant(s.keys.now()))),
	}, nil
}

// Finish replaces the key file, if the root key is in a file. It returns the writes that end the rotation and record
// its counts.
func (s *Source) Finish(ctx context.Context, operation string, counts Counts) ([]store.Write, error) {
	r, err := s.activeRotation(ctx, operation)
	switch {
	case err != nil:
		return nil, err
	case r.Other != nil:
		return nil, fmt.Errorf("rootkey: the rotation %s has two root keys still", operation)
	}
	if s.files != nil {
		if s.beforeReplace != nil {
			if err := s.beforeReplace(string(r.Wrapped)); err != nil {
				return nil, err
			}
		}
		if err := s.files.Promote(ctx, r.Wrapped); err != nil {
			return nil, err
		}
	}
	after, rotation := r, *r.Rotation
	rotation.EndedOn = new(store.Instant(s.keys.now()))
	after.Rotation = &rotation
	return []store.Write{r.replaceWith(after, true), r.updateHistory(store.Set(store.At("endedOn"), *rotation.EndedOn),
		store.Set(store.At("renewed"), counts.Renewed),
		store.Set(store.At("objects"), counts.Objects), store.Set(store.At("unreadable"), counts.Unreadable))}, nil
}
