package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// generation names one life of the bucket's name for the key templates.
func (n nameInAccount) generation(number int) generation {
	return generation(fmt.Sprintf("%s/%s/%d", n.accountID, n.name, number))
}

// look says what a request needs to read beside the bucket.
type look struct {
	// consumer is a name or an id, "" for none; tags is its precondition.
	consumer string
	tags     map[string]string
	// keyID is one of the consumer's keys, "" for none.
	keyID string
	// beside runs at the same time as the reading, with the consumer's name,
	// and again when the bucket's generation was guessed wrong. It may be nil.
	beside func(ctx context.Context, g generation, consumer string) error
}

// seen is what a request has read. Everything but a query beside is consistent
// by itself; together they are no snapshot, which the conditions of the
// writes make up for.
type seen struct {
	bucket   bucketRecord
	g        generation
	consumer consumerRecord
	key      keyRecord
}

// Faults for what is absent, or invisible to the caller, which is the same.
var (
	errNoConsumer = fault.Missing("consumer")
	errNoKey      = fault.Missing("API key")
	errNoManager  = fault.Missing("manager")
)

// guesses bounds how often a reader may find that the bucket was deleted and
// made again, or got a batch, in between.
const guesses = 4

// glance reads what a request is about in one round trip. Two rare cases take
// one more: an id that this process meets for the first time, and a name whose
// generation it guessed wrong.
func (s *Service) glance(ctx context.Context, at BucketAt, l look) (seen, error) {
	where, err := s.whereIs(ctx, at)
	if err != nil {
		return seen{}, err
	}
	for range guesses {
		number := s.known.generation(where)
		out, err := s.read(ctx, where, number, l)
		if err != nil {
			return seen{}, err
		}
		switch {
		case out.bucket.Generation != number && out.bucket.exists():
			s.known.sawGeneration(where, out.bucket.Generation)
		case out.key.NewerThan(out.bucket.Seq):
			// The bucket was read before the key's batch began, the key after.
		default:
			return out, out.missing(at, l)
		}
	}
	return seen{}, busy("Too many changes of this key bucket at once. Repeat the request after the time in Retry-After.", time.Second)
}

// missing is the fault of the first thing that is not there.
func (v seen) missing(at BucketAt, l look) error {
	switch {
	case !v.bucket.seenBy(at.Viewer), bucketID.MatchString(at.Bucket) && v.bucket.ID != at.Bucket:
		return errNoBucket
	case l.consumer == "":
		return nil
	case v.consumer.ID == "" || consumerID.MatchString(l.consumer) && v.consumer.ID != l.consumer, !v.consumer.carries(l.tags):
		return errNoConsumer
	case l.keyID == "":
		return nil
	}
	if _, there := v.bucket.Changes.Apply(v.key.KeyState); !there || v.key.ID == "" || v.key.ConsumerID != v.consumer.ID {
		return errNoKey
	}
	return nil
}

// whereIs gives the name of a bucket that may be addressed by its id.
func (s *Service) whereIs(ctx context.Context, at BucketAt) (nameInAccount, error) {
	if !bucketID.MatchString(at.Bucket) {
		if !bucketName.MatchString(at.Bucket) {
			return nameInAccount{}, errNoBucket
		}
		return nameInAccount{at.AccountID, at.Bucket}, nil
	}
	where, ok := s.known.bucket(at.Bucket)
	if !ok {
		var p bucketPointer
		err := s.table.Get(ctx, bucketIDKey(at.Bucket), &p)
		if errors.Is(err, store.ErrNotFound) {
			return nameInAccount{}, errNoBucket
		}
		if err != nil {
			return nameInAccount{}, err
		}
		where = nameInAccount{p.AccountID, p.Name}
		s.known.sawBucket(at.Bucket, where)
	}
	if where.accountID != at.AccountID {
		return nameInAccount{}, errNoBucket
	}
	return where, nil
}

// read reads everything under a guessed generation.
func (s *Service) read(ctx context.Context, where nameInAccount, number int, l look) (seen, error) {
	v := seen{g: where.generation(number)}
	wanted := []*store.Wanted{store.Want(bucketKey(where.accountID, where.name), &v.bucket)}
	consumer := l.consumer
	if consumerID.MatchString(consumer) {
		name, ok := s.known.consumer(consumer)
		if !ok {
			var p consumerPointer
			if err := s.table.Load(ctx, append(wanted, store.Want(consumerIDKey(v.g, consumer), &p))...); err != nil {
				return v, err
			}
			if p.Name == "" {
				return v, nil
			}
			name = p.Name
			s.known.sawConsumer(consumer, name)
			v.bucket = bucketRecord{}
		}
		consumer = name
	}
	known := consumerName.MatchString(consumer)
	if known {
		wanted = append(wanted, store.Want(consumerKey(v.g, consumer), &v.consumer))
		if keyID.MatchString(l.keyID) {
			wanted = append(wanted, store.Want(consumerKeyKey(v.g, consumer, l.keyID), &v.key))
		}
	}
	load := func() error { return s.table.Load(ctx, wanted...) }
	if l.beside == nil || l.consumer != "" && !known {
		return v, load()
	}
	return v, together(load, func() error { return l.beside(ctx, v.g, consumer) })
}

// asItIs gives a key as it is under the changes in flight.
func (v seen) asItIs(k keyRecord) (keyRecord, bool) {
	var there bool
	k.KeyState, there = v.bucket.Changes.Apply(k.KeyState)
	return k, there && k.ConsumerID == v.consumer.ID
}

// visible keeps the keys that are there, as they are. It answers errStale when
// the bucket was read before a batch that the query already met.
func (v seen) visible(rows []keyRecord) ([]keyRecord, error) {
	out := make([]keyRecord, 0, len(rows))
	for _, k := range rows {
		if k.NewerThan(v.bucket.Seq) {
			return nil, errStale
		}
		if k, there := v.asItIs(k); there {
			out = append(out, k)
		}
	}
	return out, nil
}
