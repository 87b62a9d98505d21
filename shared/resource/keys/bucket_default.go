package keys

import (
	"context"
	"iter"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
)

// DefaultBucket returns the name of a project's default bucket for its environments of a kind (contract 2.5).
func DefaultBucket(project string, kind environment.Kind) string {
	return project + "-" + kind.Slug()
}

// DefaultBuckets creates the three default buckets of a project in the transaction that creates the project. Load the
// result of ReadRequests, call Writes, and commit the writes.
type DefaultBuckets struct {
	service *Service
	owner   auth.Owner
	project string
	kinds   []environment.Kind
	old     []bucketRecord // the records under the names of the default buckets, in the order of kinds
	counter *counts.Counter
}

// DefaultBuckets returns the DefaultBuckets of a project.
func (s *Service) DefaultBuckets(owner auth.Owner, project string) *DefaultBuckets {
	kinds := environment.Kinds()
	return &DefaultBuckets{
		service: s, owner: owner, project: project, kinds: kinds, old: make([]bucketRecord, len(kinds)),
		counter: s.counts.NewCounter(owner.AccountID, limits.KeyBuckets),
	}
}

// ReadRequests returns the reads that the caller must load before it calls Writes.
func (d *DefaultBuckets) ReadRequests() []*store.ReadRequest {
	var out []*store.ReadRequest
	if d.counter != nil { // the zero value has no counter
		out = append(out, d.counter.ReadRequest())
	}
	for i, kind := range d.kinds {
		out = append(out, store.Get(bucketKey(d.owner.AccountID, DefaultBucket(d.project, kind)), &d.old[i]).
			Unchecked("the commit checks an existing bucket, and the record that a new bucket replaces"))
	}
	return out
}

// Writes returns the writes that create the default buckets that do not exist yet. An existing bucket with the name of
// a default bucket is used if it serves the project's environments of this kind. Otherwise, Writes returns Conflict.
// Such a bucket can exist because earlier releases did not reserve these names for projects. Writes also returns a
// fault if the account would exceed limits.KeyBuckets.
func (d *DefaultBuckets) Writes(ctx context.Context) ([]store.Write, error) {
	var writes []store.Write
	var created int64
	for i, kind := range d.kinds {
		if old := d.old[i]; old.exists() {
			if !old.serves(d.project, kind) {
				return nil, errForeignBucket(old.Name)
			}
			// The commit fails if the bucket is deleted meanwhile, such as with an earlier project of this name.
			writes = append(writes, store.Check(bucketKey(old.AccountID, old.Name),
				store.And(store.Equal(store.At("id"), old.ID), store.Lacks(store.At("deletedOn")))).Else(errBucketsConflict))
			continue
		}
		b, err := d.service.newBucket(ctx, d.owner.AccountID, NewBucket{
			Name: DefaultBucket(d.project, kind),
			Tags: map[string]string{accountTag: d.owner.Account, projectTag: d.project, environmentTag: kind.Upper()},
		}, d.old[i].Generation+1)
		if err != nil {
			return nil, err
		}
		writes = append(writes, b.createWrites(d.old[i], errBucketsConflict)...)
		created++
	}
	if created == 0 {
		return writes, nil
	}
	reservation, err := d.service.reserveBuckets(ctx, d.counter, d.owner.AccountID, created)
	return append(writes, reservation), err
}

var errBucketsConflict = fault.New(fault.Conflict, "Another request made or deleted the key buckets of this project "+
	"at the same time. Repeat the request.")

// RemoveDefaultBuckets returns the writes that delete the default buckets of a project with their contents. The
// operation operationID, which deletes the project, commits the writes. A bucket with the name of a default bucket that
// is not placed at the project and the kind of environment was created independently of the project, and stays.
func (s *Service) RemoveDefaultBuckets(
	ctx context.Context, accountID, project, operationID string,
) ([]store.Write, error) {
	d := s.DefaultBuckets(auth.Owner{AccountID: accountID}, project)
	if err := s.table.Load(ctx, d.ReadRequests()...); err != nil {
		return nil, err
	}
	var writes []store.Write
	for b := range d.ownedBy(project) {
		writes = append(writes, s.deleteBucketWrites(b, operationID+"-"+b.Environment.Slug())...)
	}
	return writes, nil
}

// ownedBy iterates over the loaded buckets that are placed at the project and at the kind of environment in their
// names. Only these are deleted with the project.
func (d *DefaultBuckets) ownedBy(project string) iter.Seq[bucketRecord] {
	return func(yield func(bucketRecord) bool) {
		for i, kind := range d.kinds {
			if b := d.old[i]; b.exists() && b.Project == project && b.Environment == kind && !yield(b) {
				return
			}
		}
	}
}
