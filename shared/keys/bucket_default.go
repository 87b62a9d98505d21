package keys

import (
	"context"
	"iter"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// DefaultBucket names the bucket that a project has for its environments of a
// kind (contract 2.5).
func DefaultBucket(project string, kind environment.Kind) string {
	return project + "-" + kind.Slug()
}

// DefaultBuckets are the three buckets of a project, for the transaction that
// makes the project: load Wanted, then ask for the Writes.
type DefaultBuckets struct {
	service *Service
	owner   auth.Owner
	project string
	kinds   []environment.Kind
	old     []bucketRecord
	tally   *counts.Tally
}

// DefaultBuckets prepares the buckets of a project.
func (s *Service) DefaultBuckets(owner auth.Owner, project string) *DefaultBuckets {
	kinds := environment.Kinds()
	return &DefaultBuckets{service: s, owner: owner, project: project, kinds: kinds, old: make([]bucketRecord, len(kinds)), tally: s.counts.Of(owner.AccountID, limits.KeyBuckets)}
}

// Wanted is what has to be loaded before Writes.
func (d *DefaultBuckets) Wanted() []*store.Wanted {
	var out []*store.Wanted
	if d.tally != nil { // the zero value has no buckets
		out = append(out, d.tally.Wanted())
	}
	for i, kind := range d.kinds {
		out = append(out, store.Want(bucketKey(d.owner.AccountID, DefaultBucket(d.project, kind)), &d.old[i]).
			Unchecked("an existing one is taken as it is, and a new one asks for what it replaces"))
	}
	return out
}

// Writes makes those of the buckets that do not exist. An existing bucket of the
// name is taken as it is if it serves the project; one that does not is a
// Conflict, and more than the account may have the refusal of limits.KeyBuckets. Buckets were made with any placement before names belonged to projects.
func (d *DefaultBuckets) Writes(ctx context.Context) ([]store.Write, error) {
	var writes []store.Write
	var made int64
	for i, kind := range d.kinds {
		if old := d.old[i]; old.exists() {
			if !old.serves(d.project, kind) {
				return nil, errForeignBucket(old.Name)
			}
			// The deletion of an earlier project of the name may be at it.
			writes = append(writes, store.Check(bucketKey(old.AccountID, old.Name),
				store.And(store.Equal(store.At("id"), old.ID), store.Lacks(store.At("deletedOn")))).Else(errBucketsRaced))
			continue
		}
		b, err := d.service.newBucket(ctx, d.owner.AccountID, NewBucket{
			Name: DefaultBucket(d.project, kind),
			Tags: map[string]string{accountTag: d.owner.Account, projectTag: d.project, environmentTag: kind.Upper()},
		}, d.old[i].Generation+1)
		if err != nil {
			return nil, err
		}
		writes = append(writes, b.create(d.old[i], errBucketsRaced)...)
		made++
	}
	if made == 0 {
		return writes, nil
	}
	room, err := d.service.takeBuckets(ctx, d.tally, d.owner.AccountID, made)
	return append(writes, room), err
}

var errBucketsRaced = fault.New(fault.Conflict, "Another request made or deleted the key buckets of this project at the same time. Repeat the request.")

// RemoveDefaultBuckets gives the writes that delete those of the buckets of a project
// that are placed at it, with all that is in them, for the commit of the operation
// that deletes the project. One that is placed elsewhere, or nowhere, was there
// before the project and stays.
func (s *Service) RemoveDefaultBuckets(ctx context.Context, accountID, project, operationID string) ([]store.Write, error) {
	d := s.DefaultBuckets(auth.Owner{AccountID: accountID}, project)
	if err := s.table.Load(ctx, d.Wanted()...); err != nil {
		return nil, err
	}
	var writes []store.Write
	for b := range d.placedAt(project) {
		writes = append(writes, s.remove(b, operationID+"-"+b.Environment.Slug())...)
	}
	return writes, nil
}

// placedAt gives those of the buckets, once they are loaded, that are placed at the
// project: they go with it.
func (d *DefaultBuckets) placedAt(project string) iter.Seq[bucketRecord] {
	return func(yield func(bucketRecord) bool) {
		for i, kind := range d.kinds {
			if b := d.old[i]; b.exists() && b.Project == project && b.Environment == kind && !yield(b) {
				return
			}
		}
	}
}
