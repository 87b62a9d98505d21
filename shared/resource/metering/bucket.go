package metering

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Bucket is the public form of a bucket.
type Bucket struct {
	ID, Account          string
	CreatedOn, UpdatedOn time.Time
}

const (
	// bucketPrefix is the key prefix of the buckets of an account, by their ids, which sort by creation. The buckets of
	// an account are one partition, which a list reads completely.
	bucketPrefix store.KeyPrefix = "metering-bucket"
	// bucketCountPrefix is the key prefix of the number of an account's buckets, which limits.MeteringBuckets limits.
	bucketCountPrefix store.KeyPrefix = "metering-bucket-count"
)

// bucketRecord is a bucket in the table. A deleted bucket has no record. Ids are
// never reused, so that the contents of a deleted bucket cannot be found.
type bucketRecord struct {
	store.UnknownAttributes

	ID        string    `dynamodbav:"id"`
	AccountID string    `dynamodbav:"accountId"`
	Account   string    `dynamodbav:"account"`
	CreatedOn time.Time `dynamodbav:"createdOn"`
	// Plans and Subscriptions are the numbers of plans and subscriptions in the bucket.
	Plans         int `dynamodbav:"plans"`
	Subscriptions int `dynamodbav:"subscriptions"`
}

func bucketPartition(accountID string) string { return bucketPrefix.Partition(accountID) }

func bucketKey(accountID, bucketID string) store.Key {
	return store.KeyIn(bucketPartition(accountID), bucketID)
}

func bucketCountKey(accountID string) store.Key { return bucketCountPrefix.Key(accountID) }

func (b bucketRecord) toBucket() Bucket {
	return Bucket{ID: b.ID, Account: b.Account, CreatedOn: b.CreatedOn, UpdatedOn: b.CreatedOn}
}

func (b bucketRecord) resource() audit.Resource {
	return audit.Resource{Type: "metering-bucket", ID: b.ID}
}

// countWrite returns the write that adds n to a counter of the bucket. The write fails if the bucket was deleted, so
// that a deleted bucket gets no new contents. It also fails if n is positive and the counter has already reached limit.
func (b bucketRecord) countWrite(attribute string, n int64, limit int) store.Write {
	w := store.Update(bucketKey(b.AccountID, b.ID), store.Add(store.At(attribute), n))
	if n > 0 {
		w = w.If(store.Less(store.At(attribute), limit))
	}
	// The next attempt detects whether the bucket was deleted or is full.
	return w.Else(store.ErrStale)
}

var errNoBucket = fault.Missing("metering bucket")

// CreateBucket creates a bucket. It returns the refusal of limits.MeteringBuckets,
// and NotFound if the caller is limited to projects or environments.
func (s *Service) CreateBucket(ctx context.Context, owner auth.Owner) (Bucket, error) {
	if !visible(owner) {
		return Bucket{}, errRestrictedKey
	}
	b := bucketRecord{
		ID: s.parts.IDs.Ordered("mtr", 24), AccountID: owner.AccountID, Account: owner.Account,
		CreatedOn: s.now(),
	}
	reservation, err := counts.Open(s.parts).CheckCapacity(ctx, owner.AccountID, limits.MeteringBuckets,
		bucketCountKey(owner.AccountID))
	if err != nil {
		return Bucket{}, err
	}
	err = s.parts.Table.Commit(ctx,
		store.Create(bucketKey(owner.AccountID, b.ID), b),
		store.Upsert(bucketCountKey(owner.AccountID),
			store.Add(store.At("count"), 1)).If(reservation.If).Else(reservation.Else),
		audit.Record(ctx, b.resource()),
	)
	return b.toBucket(), err
}

// ListBuckets returns the account's buckets, the newest first. It returns none if the caller is limited to projects or environments.
func (s *Service) ListBuckets(ctx context.Context, owner auth.Owner) ([]Bucket, error) {
	if !visible(owner) {
		return nil, nil
	}
	all, err := store.Collect[bucketRecord](ctx, s.parts.Table,
		store.Query{PK: bucketPartition(owner.AccountID), Descending: true})
	if err != nil {
		return nil, fmt.Errorf("read an account's metering buckets: %w", err)
	}
	out := make([]Bucket, len(all))
	for i, b := range all {
		out[i] = b.toBucket()
	}
	return out, nil
}

// ReadBucket returns a bucket. It returns NotFound if the bucket is missing or invisible.
func (s *Service) ReadBucket(ctx context.Context, at BucketLocator) (Bucket, error) {
	b, err := s.load(ctx, at)
	return b.toBucket(), err
}

// load reads a bucket together with further records.
func (s *Service) load(ctx context.Context, at BucketLocator, gets ...*store.ReadRequest) (bucketRecord, error) {
	if !visible(at.Owner) {
		return bucketRecord{}, errNoBucket
	}
	var b bucketRecord
	bucket := store.Get(bucketKey(at.AccountID, at.Bucket), &b).
		Unchecked("each write in a bucket changes one of its counters, and fails if it was deleted or is full")
	if err := s.parts.Table.Load(ctx, slices.Concat([]*store.ReadRequest{bucket}, gets)...); err != nil {
		return bucketRecord{}, fmt.Errorf("read a metering bucket: %w", err)
	}
	if !bucket.Found {
		return bucketRecord{}, errNoBucket
	}
	return b, nil
}

// DeleteBucket deletes a bucket with its plans, subscriptions and their history. No reader sees
// them after DeleteBucket returns. A durable operation then removes the contents from the table.
func (s *Service) DeleteBucket(ctx context.Context, at BucketLocator) error {
	return s.parts.Table.RunInTx(ctx, func(ctx context.Context) error {
		b, err := s.load(ctx, at)
		if err != nil {
			return err
		}
		if err := s.reportRemovals(ctx, b); err != nil {
			return err
		}
		return s.parts.Table.Commit(ctx,
			store.Delete(bucketKey(b.AccountID, b.ID)).If(store.Exists()).Else(store.ErrStale),
			store.Update(bucketCountKey(b.AccountID), store.Add(store.At("count"), -1)),
			operation.Create(operation.Start{
				ID: s.parts.IDs.Ordered("mop", 24), Kind: deleteBucket, Subject: b.ID, AccountID: b.AccountID,
				Input: removalInput{Bucket: b.ID},
			}, s.now()),
			audit.Record(ctx, b.resource()),
		)
	})
}

// reportRemovals reports to a dry run what the deletion of a bucket removes.
func (s *Service) reportRemovals(ctx context.Context, b bucketRecord) error {
	return store.ReportRemovals(ctx, func(ctx context.Context) (map[string]int, error) {
		n := map[string]int{"meteringBuckets": 1}
		for list, partition := range map[string]string{
			"plans":         planPartition(b.ID),
			"subscriptions": subscriptionPartition(b.ID),
		} {
			var err error
			if n[list], err = s.parts.Table.Count(ctx, store.Query{PK: partition}); err != nil {
				return nil, fmt.Errorf("count what is in a metering bucket: %w", err)
			}
		}
		return n, nil
	})
}
