package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/keys/overlay"
	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// generation names one life of the bucket's name for the key templates.
func (n qualifiedName) generation(number int) generation {
	return generation(fmt.Sprintf("%s/%s/%d", n.accountID, n.name, number))
}

// target is what a request is about.
type target struct {
	// ConsumerAt names the bucket alone when Consumer is "".
	ConsumerAt
	// keyID is one of the consumer's keys, "" for none.
	keyID string
	// query runs at the same time as the load, with the consumer's name, and
	// again when the bucket's generation was guessed wrong. It may be nil.
	query func(ctx context.Context, g generation, consumer string) error
	// counts is the name of a consumer that is to be made, whose shard of the count is read too; "" for none. consumers is
	// then the account's limit of them.
	counts    string
	consumers *counts.Tally
	// keys is the limit of a consumer's keys where some are to be made, nil otherwise.
	keys *counts.Tally
}

// view is what a request has read. Everything but the result of its query is
// consistent by itself. Together they are no snapshot: a commit holds only over
// the consumer and the key as they were read, and the consumer vouches for what
// the bucket says of it (torn).
type view struct {
	bucket   bucketRecord
	g        generation
	consumer consumerRecord
	key      keyRecord
	// shard is that of target.counts.
	shard countRow
}

// Faults for what is absent, or invisible to the caller, which is the same.
var (
	errNoConsumer = fault.Missing("consumer")
	errNoKey      = fault.Missing("API key")
	errNoManager  = fault.Missing("manager")
)

// loadAttempts bounds how often a reader may find that the bucket was deleted
// and made again, or got a batch, during the reading.
const loadAttempts = 4

// loadBucket is load for a request about a bucket alone.
func (s *Service) loadBucket(ctx context.Context, at BucketAt) (view, error) {
	return s.load(ctx, target{ConsumerAt: ConsumerAt{BucketAt: at}})
}

// load reads what a request is about in one round trip, and answers a NotFound
// fault for what of it is absent. Two rare cases take one more round trip: an id
// that this process meets for the first time, and a name whose generation it
// guessed wrong.
func (s *Service) load(ctx context.Context, t target) (view, error) {
	bucket, err := s.resolveBucket(ctx, t.BucketAt)
	if err != nil {
		return view{}, err
	}
	for range loadAttempts {
		started := s.parts.Now()
		number := s.directory.generation(bucket)
		v, err := s.loadGeneration(ctx, bucket, number, t)
		if err != nil {
			return view{}, err
		}
		switch {
		case !v.bucket.exists(): // what else was read is of a bucket that is gone, and vouches for nothing
			return v, v.missing(t)
		case v.bucket.Generation != number:
			s.directory.setGeneration(bucket, v.bucket.Generation)
		case v.torn(), s.parts.Now().Sub(started) >= overlay.Grace:
		default:
			return v, v.missing(t)
		}
	}
	return view{}, throttled("Too many changes of this key bucket at once. Repeat the request after the time in Retry-After.", time.Second)
}

// bucketUnchecked is why no commit depends on all of a bucket as it was read.
const bucketUnchecked = "its placement never changes, what is made in a deleted bucket is in a dead generation, the consumer vouches for " +
	"its changes (view.torn), and a new one asks for those that it was decided from (view.addChange)"

// namesUnchecked is why no commit depends on what leads from an id to a name.
const namesUnchecked = "it never changes, and what it leads to has the id that was asked for"

// torn reports whether the bucket was read before a large change of the consumer,
// or before the key's batch began, and the consumer or the key after it. Such a
// bucket lacks a roll that has met the key, or has a batch that is published. It
// may be newer than the consumer: a commit over that one fails.
func (v view) torn() bool {
	return v.key.NewerThan(v.bucket.Seq) || v.consumer.Seq > v.bucket.Seq
}

// missing is the fault of the first thing that is not there.
func (v view) missing(t target) error {
	switch {
	case !v.bucket.visibleTo(t.Viewer), bucketIDPattern.MatchString(t.Bucket) && v.bucket.ID != t.Bucket:
		return errNoBucket
	case t.Consumer == "":
		return nil
	case v.consumer.ID == "" || consumerIDPattern.MatchString(t.Consumer) && v.consumer.ID != t.Consumer, !v.consumer.carries(t.Tags):
		return errNoConsumer
	case t.keyID == "":
		return nil
	}
	if _, there := v.effective(v.key); !there || v.key.ID == "" {
		return errNoKey
	}
	return nil
}

// resolveBucket gives the name of a bucket that may be addressed by its id.
func (s *Service) resolveBucket(ctx context.Context, at BucketAt) (qualifiedName, error) {
	if !bucketIDPattern.MatchString(at.Bucket) {
		if !bucketNamePattern.MatchString(at.Bucket) {
			return qualifiedName{}, errNoBucket
		}
		return qualifiedName{at.AccountID, at.Bucket}, nil
	}
	bucket, ok := s.directory.bucket(at.Bucket)
	if !ok {
		var p bucketPointer
		pointer := store.Want(bucketIDKey(at.Bucket), &p).Unchecked(namesUnchecked)
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

// loadGeneration reads everything under a guessed generation.
func (s *Service) loadGeneration(ctx context.Context, bucket qualifiedName, number int, t target) (view, error) {
	v := view{g: bucket.generation(number)}
	wanted := []*store.Wanted{store.Want(bucketKey(bucket.accountID, bucket.name), &v.bucket).Unchecked(bucketUnchecked)}
	if t.counts != "" {
		wanted = append(wanted, t.consumers.Wanted(), store.Want(shardOf(v.g, t.counts), &v.shard).Unchecked("the write of what it counts asks for its room"))
	}
	if t.keys != nil {
		wanted = append(wanted, t.keys.Wanted())
	}
	consumer := t.Consumer
	if consumerIDPattern.MatchString(consumer) {
		name, ok := s.directory.consumer(consumer)
		if !ok {
			var p consumerPointer
			if err := s.table.Load(ctx, append(wanted, store.Want(consumerIDKey(v.g, consumer), &p).Unchecked(namesUnchecked))...); err != nil {
				return v, err
			}
			if p.Name == "" {
				return v, nil
			}
			name = p.Name
			s.directory.setConsumer(consumer, name)
			v.bucket, v.shard = bucketRecord{}, countRow{}
		}
		consumer = name
	}
	named := consumerNamePattern.MatchString(consumer)
	if named {
		wanted = append(wanted, store.Want(consumerKey(v.g, consumer), &v.consumer))
		if keyIDPattern.MatchString(t.keyID) {
			wanted = append(wanted, store.Want(consumerKeyKey(v.g, consumer, t.keyID), &v.key))
		}
	}
	load := func() error { return s.table.Load(ctx, wanted...) }
	if t.query == nil || t.Consumer != "" && !named {
		return v, load()
	}
	return v, concurrently(load, func() error { return t.query(ctx, v.g, consumer) })
}

// effective gives a key of the view's consumer under the changes in flight, and
// whether it is there at all.
func (v view) effective(k keyRecord) (keyRecord, bool) {
	var there bool
	k.KeyState, there = v.bucket.Changes.Apply(k.KeyState)
	return k, there && k.ConsumerID == v.consumer.ID
}

// visible keeps the keys that are there, under the changes in flight. It answers
// store.ErrStale when the bucket was read before a batch of which rows has keys.
func (v view) visible(rows []keyRecord) ([]keyRecord, error) {
	out := make([]keyRecord, 0, len(rows))
	for _, k := range rows {
		if k.NewerThan(v.bucket.Seq) {
			return nil, store.ErrStale
		}
		if k, there := v.effective(k); there {
			out = append(out, k)
		}
	}
	return out, nil
}
