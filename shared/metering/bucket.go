package metering

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// Bucket is a bucket as its owner sees it.
type Bucket struct {
	ID, Account          string
	CreatedOn, UpdatedOn time.Time
}

// bucketRecord is a bucket in the table. A deleted one has none: its id is never another's, so
// that nothing of it is found any more.
type bucketRecord struct {
	store.Rest

	ID        string    `dynamodbav:"id"`
	AccountID string    `dynamodbav:"accountId"`
	Account   string    `dynamodbav:"account"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	// Plans and Subscriptions count what is in it.
	Plans         int `dynamodbav:"plans"`
	Subscriptions int `dynamodbav:"subscriptions"`
}

func (b bucketRecord) bucket() Bucket {
	return Bucket{ID: b.ID, Account: b.Account, CreatedOn: b.CreatedOn, UpdatedOn: b.CreatedOn}
}

func (b bucketRecord) resource() audit.Resource {
	return audit.Resource{Type: "metering-bucket", ID: b.ID}
}

// count adds n to a counter of the bucket. It fails where the bucket is gone, so that nothing is made in it
// after its deletion, and where the counter is at most already.
func (b bucketRecord) count(attribute string, n int64, most int) store.Write {
	w := store.Update(bucketKey(b.AccountID, b.ID), store.Add(store.At(attribute), n))
	if n > 0 {
		w = w.If(store.Less(store.At(attribute), most))
	}
	// The next attempt sees which of the two it is.
	return w.Else(store.ErrStale)
}

var errNoBucket = fault.Missing("metering bucket")

// CreateBucket makes a bucket. It answers the refusal of limits.MeteringBuckets, and NotFound
// to a caller with limits.
func (s *Service) CreateBucket(ctx context.Context, owner auth.Owner) (Bucket, error) {
	if !visible(owner) {
		return Bucket{}, errLimited
	}
	b := bucketRecord{ID: s.parts.IDs.Ordered("mtr", 24), AccountID: owner.AccountID, Account: owner.Account, CreatedOn: s.now()}
	room, err := counts.Open(s.parts).Beside(ctx, owner.AccountID, limits.MeteringBuckets, bucketCountKey(owner.AccountID))
	if err != nil {
		return Bucket{}, err
	}
	err = s.parts.Table.Commit(ctx,
		store.Create(bucketKey(owner.AccountID, b.ID), b),
		store.Upsert(bucketCountKey(owner.AccountID), store.Add(store.At("count"), 1)).If(room.If).Else(room.Else),
		audit.Record(ctx, b.resource()),
	)
	return b.bucket(), err
}

// ListBuckets gives the account's buckets, the newest first; a caller with limits sees none.
func (s *Service) ListBuckets(ctx context.Context, owner auth.Owner) ([]Bucket, error) {
	if !visible(owner) {
		return nil, nil
	}
	all, err := store.Collect[bucketRecord](ctx, s.parts.Table, store.Query{PK: bucketPartition(owner.AccountID), Descending: true})
	if err != nil {
		return nil, fmt.Errorf("read an account's metering buckets: %w", err)
	}
	out := make([]Bucket, len(all))
	for i, b := range all {
		out[i] = b.bucket()
	}
	return out, nil
}

// ReadBucket gives a bucket. One that is not there or not seen is NotFound.
func (s *Service) ReadBucket(ctx context.Context, at BucketAt) (Bucket, error) {
	b, err := s.load(ctx, at)
	return b.bucket(), err
}

// load reads a bucket, and further records beside it.
func (s *Service) load(ctx context.Context, at BucketAt, beside ...*store.Wanted) (bucketRecord, error) {
	if !visible(at.Owner) {
		return bucketRecord{}, errNoBucket
	}
	var b bucketRecord
	bucket := store.Want(bucketKey(at.AccountID, at.Bucket), &b).
		Unchecked("each write in a bucket counts there, which fails where it is gone or full")
	if err := s.parts.Table.Load(ctx, slices.Concat([]*store.Wanted{bucket}, beside)...); err != nil {
		return bucketRecord{}, fmt.Errorf("read a metering bucket: %w", err)
	}
	if !bucket.Found {
		return bucketRecord{}, errNoBucket
	}
	return b, nil
}

// DeleteBucket deletes a bucket with its plans, subscriptions and their history. They are gone for
// everybody when it returns; a durable operation empties the table afterwards.
func (s *Service) DeleteBucket(ctx context.Context, at BucketAt) error {
	return s.parts.Table.Again(ctx, func(ctx context.Context) error {
		b, err := s.load(ctx, at)
		if err != nil {
			return err
		}
		if err := s.removes(ctx, b); err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(bucketKey(b.AccountID, b.ID)).If(store.Exists()).Else(store.ErrStale),
			store.Update(bucketCountKey(b.AccountID), store.Add(store.At("count"), -1)),
			operation.Begin(operation.Start{
				ID: s.parts.IDs.Ordered("mop", 24), Kind: emptyBucket, Subject: b.ID, AccountID: b.AccountID, Input: emptying{Bucket: b.ID},
			}, s.now()),
			audit.Record(ctx, b.resource()),
		)
	})
}

// removes tells a dry run of the deletion of a bucket what goes with it.
func (s *Service) removes(ctx context.Context, b bucketRecord) error {
	return store.Removes(ctx, func(ctx context.Context) (map[string]int, error) {
		n := map[string]int{"meteringBuckets": 1}
		for of, partition := range map[string]string{"plans": planPartition(b.ID), "subscriptions": subscriptionPartition(b.ID)} {
			var err error
			if n[of], err = s.parts.Table.Count(ctx, store.Query{PK: partition}); err != nil {
				return nil, fmt.Errorf("count what is in a metering bucket: %w", err)
			}
		}
		return n, nil
	})
}
