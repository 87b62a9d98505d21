package keys

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/keys/overlay"
)

// target identifies the resource of a request, and says which other data load has to read.
type target struct {
	// ConsumerLocator identifies only the bucket when Consumer is "".
	ConsumerLocator
	// keyID is the id of one of the consumer's keys, "" for none.
	keyID string
	// query, if not nil, runs concurrently with the read of the bucket and the consumer. consumer is the name of the
	// consumer, "" for none. query does not run if the text in Consumer cannot be a name or an id. It runs once per
	// attempt (loadAttempts), so each call must replace the result of the previous call.
	query func(ctx context.Context, g generation, consumer string) error
	// newConsumer is the name of the consumer that the request creates, "" for none. If it is set, load also reads the
	// consumer's shard (view.shard), and consumerLimit must be the counter for the account's limit on consumers.
	newConsumer   string
	consumerLimit *counts.Counter
	// keyLimit is the counter for the limit on a consumer's keys if the request creates keys, nil otherwise.
	keyLimit *counts.Counter
}

// view is the data that a request has read. Each record is consistent in itself, but the records together are not a
// snapshot. So a commit requires that the consumer and the key have not changed since they were read, and torn reports
// whether the bucket's record is too old for the consumer or the key.
type view struct {
	bucket     bucketRecord
	generation generation
	consumer   consumerRecord
	key        keyRecord
	// shard is the shard that counts target.newConsumer.
	shard countRow
}

// The faults for resources that are missing or invisible to the caller. Callers cannot distinguish the two cases.
var (
	errNoConsumer = fault.Missing("consumer")
	errNoKey      = fault.Missing("API key")
	errNoManager  = fault.Missing("manager")
)

// loadAttempts is the maximum number of attempts to read consistent data. An attempt fails if the guess of the bucket's
// generation is wrong, if the bucket's record is too old (view.torn), or if the reads take overlay.Grace or longer.
const loadAttempts = 4

// loadBucket calls load for a request that needs only the bucket.
func (s *Service) loadBucket(ctx context.Context, at BucketLocator) (view, error) {
	return s.load(ctx, target{ConsumerLocator: ConsumerLocator{BucketLocator: at}})
}

// load reads the resource of a request, normally in one round trip. It returns NotFound if the bucket, the consumer or
// the key is missing or invisible to the caller. A bucket or consumer id that is not in the process's directory needs
// one more round trip. So does each further attempt. If all attempts (loadAttempts) fail, load returns Throttled.
func (s *Service) load(ctx context.Context, t target) (view, error) {
	bucket, err := s.resolveBucket(ctx, t.BucketLocator)
	if err != nil {
		return view{}, err
	}
	for range loadAttempts {
		started := s.parts.Now()
		guess := s.directory.generation(bucket)
		v, err := s.loadGeneration(ctx, bucket, guess, t)
		if err != nil {
			return view{}, err
		}
		switch {
		case !v.bucket.exists(): // the other data is of a deleted bucket
			return v, v.missingFault(t)
		case v.bucket.Generation != guess:
			s.directory.setGeneration(bucket, v.bucket.Generation)
		case v.torn(), s.parts.Now().Sub(started) >= overlay.Grace:
		default:
			return v, v.missingFault(t)
		}
	}
	return view{},
		throttled("Too many changes of this key bucket at once. Repeat the request after the time in Retry-After.",
			time.Second)
}

// bucketUncheckedReason is the reason why a commit does not require that the bucket's record is unchanged
// (store.ReadRequest.Unchecked).
const bucketUncheckedReason = "the placement never changes, a write into the generation of a deleted bucket is " +
	"harmless because no request reads it, " +
	"the consumer's record shows whether the overlay is too old (view.torn), and the write of a new overlay entry " +
	"checks the overlay (view.addChange)"

// namesUncheckedReason is the reason why a commit does not require that the pointer from an id to a name is unchanged.
const namesUncheckedReason = "the pointer never changes, and the record with the name must have the requested id"

// torn reports whether the bucket record is too old for the consumer or the key: it was read before a large change of
// the consumer or before the key's batch began. The overlay in such a bucket record can lack the entry of a roll that
// has changed the key, or can still contain the entry of a batch that has been published since. A bucket record that is
// newer than the consumer is harmless: a commit that requires the older consumer fails.
func (v view) torn() bool {
	return v.key.NewerThan(v.bucket.Seq) || v.consumer.Seq > v.bucket.Seq
}

// missingFault returns the fault for the first resource of t that is missing or invisible, or nil.
func (v view) missingFault(t target) error {
	switch {
	case !v.bucket.visibleTo(t.Viewer), bucketIDPattern.MatchString(t.Bucket) && v.bucket.ID != t.Bucket:
		return errNoBucket
	case t.Consumer == "":
		return nil
	case v.consumer.ID == "" || consumerIDPattern.MatchString(t.Consumer) && v.consumer.ID != t.Consumer,
		!v.consumer.hasTags(t.Tags):
		return errNoConsumer
	case t.keyID == "":
		return nil
	}
	if _, exists := v.effective(v.key); !exists || v.key.ID == "" {
		return errNoKey
	}
	return nil
}

// resolveBucket returns the qualified name of a bucket. If at has a name, resolveBucket does not check that the bucket
// exists. It returns errNoBucket for a name that is not valid, and for an id that is unknown or belongs to another
// account.
func (s *Service) resolveBucket(ctx context.Context, at BucketLocator) (qualifiedName, error) {
	if !bucketIDPattern.MatchString(at.Bucket) {
		if !bucketNamePattern.MatchString(at.Bucket) {
			return qualifiedName{}, errNoBucket
		}
		return qualifiedName{at.AccountID, at.Bucket}, nil
	}
	bucket, ok := s.directory.bucket(at.Bucket)
	if !ok {
		var p bucketPointer
		pointer := store.Get(bucketIDKey(at.Bucket), &p).Unchecked(namesUncheckedReason)
		if err := s.table.Load(ctx, pointer); err != nil {
			return qualifiedName{}, err
		}
		if !pointer.Found {
			return qualifiedName{}, errNoBucket
		}
		bucket = qualifiedName{p.AccountID, p.Name}
		s.directory.setBucket(at.Bucket, bucket)
	}
	if bucket.accountID != at.AccountID {
		return qualifiedName{}, errNoBucket
	}
	return bucket, nil
}

// loadGeneration reads the bucket and the other data of t, under the assumption that guess is the bucket's generation
// number.
func (s *Service) loadGeneration(ctx context.Context, bucket qualifiedName, guess int, t target) (view, error) {
	v := view{generation: bucket.generation(guess)}
	gets := []*store.ReadRequest{store.Get(bucketKey(bucket.accountID, bucket.name),
		&v.bucket).Unchecked(bucketUncheckedReason)}
	if t.newConsumer != "" {
		gets = append(gets, t.consumerLimit.ReadRequest(), store.Get(shardOf(v.generation, t.newConsumer),
			&v.shard).Unchecked("the write that counts the consumer checks the shard's capacity"))
	}
	if t.keyLimit != nil {
		gets = append(gets, t.keyLimit.ReadRequest())
	}
	consumer := t.Consumer
	if consumerIDPattern.MatchString(consumer) {
		name, ok := s.directory.consumer(consumer)
		if !ok {
			var p consumerPointer
			if err := s.table.Load(ctx,
				append(gets, store.Get(consumerIDKey(v.generation, consumer), &p).Unchecked(namesUncheckedReason))...); err != nil {
				return v, err
			}
			if p.Name == "" {
				return v, nil
			}
			name = p.Name
			s.directory.setConsumer(consumer, name)
			v.bucket, v.shard = bucketRecord{}, countRow{} // gets are loaded again, together with the consumer
		}
		consumer = name
	}
	validName := consumerNamePattern.MatchString(consumer)
	if validName {
		gets = append(gets, store.Get(consumerKey(v.generation, consumer), &v.consumer))
		if keyIDPattern.MatchString(t.keyID) {
			gets = append(gets, store.Get(keyRecordKey(v.generation, consumer, t.keyID), &v.key))
		}
	}
	load := func() error { return s.table.Load(ctx, gets...) }
	if t.query == nil || t.Consumer != "" && !validName {
		return v, load()
	}
	return v, concurrently(load, func() error { return t.query(ctx, v.generation, consumer) })
}

// effective returns a key with the changes of the bucket's overlay. It also reports whether the key exists and belongs
// to the view's consumer.
func (v view) effective(k keyRecord) (keyRecord, bool) {
	var exists bool
	k.KeyState, exists = v.bucket.Changes.Apply(k.KeyState)
	return k, exists && k.ConsumerID == v.consumer.ID
}

// existingKeys returns the keys in rows that exist and belong to the view's consumer, with the changes of the bucket's
// overlay. It returns store.ErrStale if rows contain a key whose batch began after the bucket was read.
func (v view) existingKeys(rows []keyRecord) ([]keyRecord, error) {
	out := make([]keyRecord, 0, len(rows))
	for _, k := range rows {
		if k.NewerThan(v.bucket.Seq) {
			return nil, store.ErrStale
		}
		if k, exists := v.effective(k); exists {
			out = append(out, k)
		}
	}
	return out, nil
}
