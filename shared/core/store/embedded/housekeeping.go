package embedded

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/core/store"
)

// These constants are for the deletion of expired data. An expired item
// is deleted within a minute, while DynamoDB takes up to some days.
const (
	// sweepInterval is the minimum time between two searches for expired items.
	sweepInterval = 20 * time.Second
	// sweepItems is the maximum number of items that one commit deletes.
	sweepItems = 100
)

// runHousekeeping deletes expired items, and old tokens and changes of the feed, until Close. It sleeps while there is
// nothing to delete.
func (b *Backend) runHousekeeping() {
	for {
		next := b.runOnce()
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-b.wake:
			timer.Stop()
			// Wait, because many commits may each write an item that expires soon: delete these items together.
			if !sleep(b.ctx, sweepInterval) {
				return
			}
		case <-b.ctx.Done():
			timer.Stop()
			return
		}
		if b.ctx.Err() != nil {
			return
		}
	}
}

// sleep waits for d. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// runOnce deletes expired data, and returns the time until the next search.
func (b *Backend) runOnce() time.Duration {
	now := b.o.Now()
	b.nextCleanup.Store(math.MaxInt64) // from here on, every commit with an expiring item calls wakeHousekeeping
	err := b.Expire(b.ctx)
	if deleteErr := b.deleteOld(now); err == nil {
		err = deleteErr
	}
	if err != nil && b.ctx.Err() == nil {
		b.o.Log.Warn("what has expired is not deleted, trying again", "error", err)
	}
	next := now.Add(time.Hour)
	if first, ok := b.firstExpiry(); ok && first < next.Unix() {
		next = time.Unix(first, 0)
	}
	b.nextCleanup.Store(next.Unix())
	return max(next.Sub(now), sweepInterval)
}

// wakeHousekeeping makes the housekeeping run earlier than planned.
func (b *Backend) wakeHousekeeping() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Expire deletes the items whose ttl is past. The background work does the same within a minute.
func (b *Backend) Expire(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := b.expireBatch(ctx)
		if err != nil || n < sweepItems {
			return err
		}
	}
	return ctx.Err()
}

// expireBatch deletes up to sweepItems expired items in one commit, and returns the number of keys that it has found.
func (b *Backend) expireBatch(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.begin(); err != nil {
		return 0, err
	}
	defer b.calls.done()
	b.mu.Lock()
	batch, c, n, err := b.applyExpiry()
	b.mu.Unlock()
	if err != nil || c == nil {
		return n, err
	}
	return n, b.waitSynced(batch, c)
}

// applyExpiry makes the deletion of up to sweepItems expired items readable. It also returns the number of keys that it
// has found. The pendingCommit is nil if there is none. The caller must hold b.mu.
func (b *Backend) applyExpiry() (*pebble.Batch, *pendingCommit, int, error) {
	now := b.o.Now()
	keys, err := b.expired(now.Unix(), sweepItems)
	if err != nil || len(keys) == 0 {
		return nil, nil, 0, err
	}
	var effects []store.Effect
	batch := b.db.NewBatch()
	for _, k := range keys {
		s, err := b.stored(k)
		if err != nil {
			return nil, nil, 0, errors.Join(err, batch.Close())
		}
		if s != nil {
			effects = append(effects, store.Effect{Key: k, Before: s})
		}
	}
	if err := b.fill(batch, effects, now); err != nil {
		return nil, nil, 0, errors.Join(err, batch.Close())
	}
	batch, c, err := b.applyBatch(batch, effects)
	return batch, c, len(keys), err
}

// expired returns the keys of at most limit items whose ttl is before now, the earliest first.
func (b *Backend) expired(now int64, limit int) (out []store.Key, err error) {
	iterator, err := b.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{expiryPrefix},
		UpperBound: numberedKey(expiryPrefix, uint64(max(now, 0))),
	})
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = iterator.Close() }()
	for more := iterator.First(); more && len(out) < limit; more = iterator.Next() {
		pk, sk := cutText(iterator.Key()[1+numberBytes:])
		out = append(out, store.Key{PK: pk, SK: string(sk)})
	}
	if err := iterator.Error(); err != nil {
		return nil, readError(err)
	}
	return out, nil
}

// firstExpiry returns the time at which the next item expires, in seconds since 1970. It returns false if no item
// expires, or if the time cannot be read.
func (b *Backend) firstExpiry() (int64, bool) {
	iterator, err := b.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{expiryPrefix},
		UpperBound: []byte{expiryPrefix + 1},
	})
	if err != nil {
		return 0, false
	}
	defer func() { _ = iterator.Close() }()
	if !iterator.First() {
		return 0, false
	}
	at := binary.BigEndian.Uint64(iterator.Key()[1:])
	return int64(min(at, math.MaxInt32)), true //nolint:gosec // G115: bounded
}

func hourOf(at time.Time) int64 { return at.Unix() / int64(time.Hour/time.Second) }

// recordHour adds the number of the next change to the batch if it is the first change of an hour, so that deleteOld
// can delete all changes of an hour at once.
func (b *Backend) recordHour(batch *pebble.Batch, now time.Time) error {
	hour := hourOf(now)
	if hour <= b.hour {
		return nil
	}
	b.hour = hour
	key := numberedKey(hourPrefix, uint64(hour)) //nolint:gosec // G115: not negative
	if err := batch.Set(key, encodeNumber(b.seq+1), nil); err != nil {
		return fmt.Errorf("note an hour: %w", err)
	}
	return nil
}

// deleteOld deletes the changes of hours that ended more than a day ago (the changes before firstRetained),
// and tokens that are too old to be repeated.
func (b *Backend) deleteOld(now time.Time) error {
	first, from, err := b.firstRetained(now.Add(-feedRetention))
	if err != nil {
		return err
	}
	deleted := deletedUpTo{first, tokenBucket(now.Add(-2 * tokenLifetime))}
	if deleted == b.deleted {
		return nil
	}
	batch := b.db.NewBatch()
	defer func() { _ = batch.Close() }()
	err = batch.DeleteRange([]byte{tokenPrefix}, numberedKey(tokenPrefix, deleted.bucket), nil)
	if err == nil && first > 0 {
		err = errors.Join(batch.DeleteRange([]byte{feedPrefix}, numberedKey(feedPrefix, first), nil),
			batch.DeleteRange([]byte{hourPrefix}, from, nil))
	}
	if err != nil {
		return fmt.Errorf("forget old changes: %w", err)
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return b.fail(err)
	}
	b.deleted = deleted
	return nil
}

// deletedUpTo records the positions up to which the feed and the tokens are deleted.
type deletedUpTo struct{ first, bucket uint64 }

// firstRetained returns the number of the first change of the hour that contains oldest, and the key of that hour.
// If that hour has no changes, it uses the last earlier hour with changes, so changes of that hour are kept longer.
// It returns 0 if there is no such hour.
func (b *Backend) firstRetained(oldest time.Time) (first uint64, hour []byte, err error) {
	return lastHourEntry(b.db, numberedKey(hourPrefix, uint64(max(0, hourOf(oldest))+1)))
}

// lastHour returns the last hour whose first change is recorded, 0 if there is none.
func lastHour(db *pebble.DB) (int64, error) {
	_, key, err := lastHourEntry(db, []byte{hourPrefix + 1})
	if err != nil || len(key) != 1+numberBytes {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(key[1:])), nil //nolint:gosec // G115: an hour
}

// lastHourEntry returns the entry of the last hour below the key upper: the number of
// the hour's first change, and the entry's key. It returns 0 and nil if there is none.
func lastHourEntry(db *pebble.DB, upper []byte) (first uint64, key []byte, err error) {
	iterator, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{hourPrefix}, UpperBound: upper})
	if err != nil {
		return 0, nil, readError(err)
	}
	if iterator.Last() && len(iterator.Value()) == numberBytes {
		first, key = binary.BigEndian.Uint64(iterator.Value()), bytes.Clone(iterator.Key())
	}
	if err := cmp.Or(iterator.Error(), iterator.Close()); err != nil { // usually the same error
		return 0, nil, readError(err)
	}
	return first, key, nil
}
