package embedded

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/store"
)

// Transact implements Backend. Conditions are looked at and effects are made
// under one lock, one commit at a time; the fsync that makes them last is waited
// for outside of it, so that those who wait share one.
func (b *Backend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.RefuseTried(ctx); err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	began := time.Now()
	batch, f, err := b.apply(ctx, token, writes)
	if err != nil {
		if _, condition := errors.AsType[*store.ConditionError](err); condition || errors.Is(err, store.ErrTokenReused) {
			// What refused it may not be on disk yet.
			return errors.Join(err, b.settled(ctx, touching(writes)))
		}
		return err
	}
	if f == nil { // it was made before
		return b.settled(ctx, nil)
	}
	if err := b.land(batch, f); err != nil {
		return err
	}
	b.tell(began)
	return nil
}

// land waits until a flight is on disk, where the next start finds it, and promises it.
func (b *Backend) land(batch *pebble.Batch, f *flight) error {
	err := batch.SyncWait()
	if err == nil {
		err = b.inPlace()
	}
	if err == nil {
		err = b.ack.promise(f.seq)
	}
	if err != nil {
		// Those who have read it, or wait for it, hear of it from usable.
		err = b.fail(err)
		b.flights.landed(f, 0)
		return err
	}
	b.flights.landed(f, f.seq)
	_ = batch.Close()
	return nil
}

// apply makes a transaction's effects readable, and none of them durable. Its
// flight is nil for a transaction that was made before.
func (b *Backend) apply(ctx context.Context, token string, writes []store.Write) (*pebble.Batch, *flight, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Now()
	digest := store.Digest(writes)
	earlier, made, err := b.tokenDigest(token, now)
	switch {
	case err != nil:
		return nil, nil, err
	case made && earlier != digest:
		return nil, nil, store.ErrTokenReused
	case made:
		store.ChargeRepeat(ctx, writes)
		return nil, nil, nil
	}
	effects, err := store.Effects(ctx, writes, b.stored)
	if err != nil {
		return nil, nil, err
	}
	batch := b.db.NewBatch()
	if err := b.fill(batch, effects, now); err != nil {
		return nil, nil, errors.Join(err, batch.Close())
	}
	if err := batch.Set(tokenKey(token, now), number(digest), nil); err != nil {
		return nil, nil, fmt.Errorf("note a token: %w", err)
	}
	return b.launch(batch, effects)
}

// launch makes a batch readable.
func (b *Backend) launch(batch *pebble.Batch, effects []store.Effect) (*pebble.Batch, *flight, error) {
	f := &flight{effects: effects, seq: b.seq + uint64(max(1, len(effects))), done: make(chan struct{})}
	if err := batch.Set(lastKey, number(f.seq), nil); err != nil {
		return nil, nil, fmt.Errorf("note the last change: %w", err)
	}
	b.flights.add(f)
	err := b.db.ApplyNoSyncWait(batch, pebble.Sync)
	if err == nil {
		err = b.usable() // a log that cannot be written is told there
	}
	if err != nil {
		b.flights.landed(f, 0)
		return nil, nil, b.fail(err)
	}
	b.seq = f.seq
	return batch, f, nil
}

// fill puts what a transaction does into a batch: items, index entries, the feed.
func (b *Backend) fill(batch *pebble.Batch, effects []store.Effect, now time.Time) error {
	seq := b.seq
	for _, e := range effects {
		if e.Before == e.After {
			continue // a check, or a delete of nothing
		}
		if err := write(batch, e); err != nil {
			return err
		}
		record, ok := e.StreamRecord()
		if !ok {
			continue
		}
		seq++
		change, err := encodeChange(record, now)
		if err != nil {
			return err
		}
		if err := batch.Set(numbered(feedSpace, seq), change, nil); err != nil {
			return fmt.Errorf("write the feed: %w", err)
		}
		if ttl, ok := expiry(e.After); ok && ttl < b.alarm.Load() {
			b.rouse()
		}
	}
	return b.noteHour(batch, now)
}

// write puts an item and its index entries into a batch.
func write(batch *pebble.Batch, e store.Effect) error {
	var all []error
	set := func(key, value []byte) { all = append(all, batch.Set(key, value, nil)) }
	remove := func(key []byte) { all = append(all, batch.Delete(key, nil)) }
	if e.Before != nil {
		if due, _, ok := store.DueIndex.Entry(e.Before.Item); ok {
			remove(dueKey(due, e.Key))
		}
		if ttl, ok := expiry(e.Before); ok {
			remove(expiryKey(ttl, e.Key))
		}
	}
	if e.After == nil {
		remove(itemKey(e.Key))
		return errors.Join(all...)
	}
	stored, err := encodeStored(e.After)
	if err != nil {
		return err
	}
	set(itemKey(e.Key), stored)
	if due, projected, ok := store.DueIndex.Entry(e.After.Item); ok {
		stored, err := encodeStored(&store.Stored{Item: projected, Size: store.Size(projected)})
		if err != nil {
			return err
		}
		set(dueKey(due, e.Key), stored)
	}
	if ttl, ok := expiry(e.After); ok {
		set(expiryKey(ttl, e.Key), nil)
	}
	return errors.Join(all...)
}

// expiry is when an item may be deleted, in seconds since 1970.
func expiry(s *store.Stored) (int64, bool) {
	if s == nil {
		return 0, false
	}
	n, ok := s.Item[store.TTLAttribute].(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	ttl, err := strconv.ParseInt(n.Value, 10, 64)
	return ttl, err == nil && ttl >= 0
}

// stored reads an item as a commit sees it, nil for none.
func (b *Backend) stored(key store.Key) (*store.Stored, error) { return readItem(b.db, key) }

func readItem(from pebble.Reader, key store.Key) (*store.Stored, error) {
	raw, closer, err := from.Get(itemKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(err)
	}
	defer func() { _ = closer.Close() }()
	s, err := decodeStored(key, raw)
	if err != nil {
		return nil, damaged(err)
	}
	return s, nil
}

// tokenLife is at least how long a token is remembered, as in DynamoDB.
const tokenLife = 10 * time.Minute

func tokenBucket(at time.Time) uint64 {
	return uint64(max(0, at.Unix()) / int64(tokenLife/time.Second))
}

func tokenKey(token string, at time.Time) []byte {
	return append(numbered(tokenSpace, tokenBucket(at)), token...)
}

// tokenDigest gives the digest of the transaction that had a token.
func (b *Backend) tokenDigest(token string, now time.Time) (digest uint64, ok bool, err error) {
	for _, at := range []time.Time{now, now.Add(-tokenLife)} {
		raw, closer, err := b.db.Get(tokenKey(token, at))
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, false, damaged(err)
		}
		defer func() { _ = closer.Close() }()
		if len(raw) != numberBytes {
			return 0, false, damaged(errDamaged)
		}
		return binary.BigEndian.Uint64(raw), true, nil
	}
	return 0, false, nil
}

// flight is a commit that can be read and is not known to be on disk.
type flight struct {
	effects []store.Effect
	seq     uint64 // of its last change
	done    chan struct{}
}

// flights are all of them, and how far the log is on disk.
type flights struct {
	mu   sync.Mutex
	all  map[*flight]struct{}
	last uint64        // all changes up to it are on disk
	news chan struct{} // closed when last rises
}

func (f *flights) begin() { f.all, f.news = map[*flight]struct{}{}, make(chan struct{}) }

func (f *flights) add(one *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all[one] = struct{}{}
}

// landed notes that a flight has ended, and that all changes up to seq are on
// disk: the log is written in order.
func (f *flights) landed(one *flight, seq uint64) {
	f.mu.Lock()
	delete(f.all, one)
	f.mu.Unlock()
	f.durable(seq)
	close(one.done)
}

func (f *flights) durable(seq uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq > f.last {
		f.last = seq
		close(f.news)
		f.news = make(chan struct{})
	}
}

// upTo gives the last change that is on disk, and what closes when there are more.
func (f *flights) upTo() (uint64, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last, f.news
}

// settled waits until what was read is on disk: the commits in flight that touch
// it, all of them for nil. What the caller was shown is never taken back.
func (b *Backend) settled(ctx context.Context, touches func(store.Effect) bool) error {
	b.flights.mu.Lock()
	var wait []*flight
	for f := range b.flights.all {
		if touches == nil || slices.ContainsFunc(f.effects, touches) {
			wait = append(wait, f)
		}
	}
	b.flights.mu.Unlock()
	for _, f := range wait {
		select {
		case <-f.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return b.usable()
}

// touching tells the effects on the items of writes.
func touching(writes []store.Write) func(store.Effect) bool {
	return func(e store.Effect) bool {
		return slices.ContainsFunc(writes, func(w store.Write) bool { return w.Key == e.Key })
	}
}
