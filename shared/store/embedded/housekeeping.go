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

	"github.com/gatewright/gatewright/shared/store"
)

// How what has had its time is deleted. DynamoDB takes up to some days for an
// expired item; here it is gone within a minute.
const (
	// sweepInterval is the least time between two looks for expired items.
	sweepInterval = 20 * time.Second
	// sweepItems is how many of them one commit deletes.
	sweepItems = 100
)

// keepHouse deletes expired items, and old tokens and changes of the feed. It
// sleeps while there is nothing to do.
func (b *Backend) keepHouse() {
	for {
		next := b.look()
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-b.wake:
			timer.Stop()
			// Many commits have one item each that expires soon.
			if !wait(b.life, sweepInterval) {
				return
			}
		case <-b.life.Done():
			timer.Stop()
			return
		}
		if b.life.Err() != nil {
			return
		}
	}
}

func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// look deletes what there is to delete, and gives the time until the next look.
func (b *Backend) look() time.Duration {
	now := b.o.Now()
	b.alarm.Store(math.MaxInt64) // what is committed from here on rouses, if it expires at all
	err := b.Expire(b.life)
	if forgetErr := b.forget(now); err == nil {
		err = forgetErr
	}
	if err != nil && b.life.Err() == nil {
		b.o.Log.Warn("what has expired is not deleted, trying again", "error", err)
	}
	at := now.Add(time.Hour)
	if first, ok := b.firstExpiry(); ok && first < at.Unix() {
		at = time.Unix(first, 0)
	}
	b.alarm.Store(at.Unix())
	return max(at.Sub(now), sweepInterval)
}

// rouse has the housekeeping look sooner than it meant to.
func (b *Backend) rouse() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// Expire deletes the items whose ttl is past now, as the background does by
// itself within a minute.
func (b *Backend) Expire(ctx context.Context) error {
	for ctx.Err() == nil {
		n, err := b.expireSome(ctx)
		if err != nil || n < sweepItems {
			return err
		}
	}
	return ctx.Err()
}

func (b *Backend) expireSome(ctx context.Context) (int, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := b.begin(); err != nil {
		return 0, err
	}
	defer b.calls.done()
	b.mu.Lock()
	batch, f, n, err := b.applyExpiry()
	b.mu.Unlock()
	if err != nil || f == nil {
		return n, err
	}
	return n, b.land(batch, f)
}

// applyExpiry makes the deletions of some items readable.
func (b *Backend) applyExpiry() (*pebble.Batch, *flight, int, error) {
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
	batch, f, err := b.launch(batch, effects)
	return batch, f, len(keys), err
}

// expired gives items whose ttl is before now.
func (b *Backend) expired(now int64, limit int) (out []store.Key, err error) {
	entries, err := b.db.NewIter(&pebble.IterOptions{LowerBound: []byte{expirySpace}, UpperBound: numbered(expirySpace, uint64(max(now, 0)))})
	if err != nil {
		return nil, damaged(err)
	}
	defer func() { _ = entries.Close() }()
	for more := entries.First(); more && len(out) < limit; more = entries.Next() {
		pk, sk := cutText(entries.Key()[1+numberBytes:])
		out = append(out, store.Key{PK: pk, SK: string(sk)})
	}
	if err := entries.Error(); err != nil {
		return nil, damaged(err)
	}
	return out, nil
}

// firstExpiry is when the next item expires, in seconds since 1970.
func (b *Backend) firstExpiry() (int64, bool) {
	entries, err := b.db.NewIter(&pebble.IterOptions{LowerBound: []byte{expirySpace}, UpperBound: []byte{expirySpace + 1}})
	if err != nil {
		return 0, false
	}
	defer func() { _ = entries.Close() }()
	if !entries.First() {
		return 0, false
	}
	at := binary.BigEndian.Uint64(entries.Key()[1:])
	return int64(min(at, math.MaxInt32)), true //nolint:gosec // G115: bounded
}

func hourOf(at time.Time) int64 { return at.Unix() / int64(time.Hour/time.Second) }

// noteHour notes the first change of each hour, so that those of a whole hour
// are forgotten at once.
func (b *Backend) noteHour(batch *pebble.Batch, now time.Time) error {
	hour := hourOf(now)
	if hour <= b.hour {
		return nil
	}
	b.hour = hour
	if err := batch.Set(numbered(hourSpace, uint64(hour)), number(b.seq+1), nil); err != nil { //nolint:gosec // G115: not negative
		return fmt.Errorf("note an hour: %w", err)
	}
	return nil
}

// forget deletes the changes of hours that are over for longer than a day, and
// tokens that nobody will repeat.
func (b *Backend) forget(now time.Time) error {
	first, from, err := b.firstKept(now.Add(-feedLife))
	if err != nil {
		return err
	}
	done := forgotten{first, tokenBucket(now.Add(-2 * tokenLife))}
	if done == b.forgotten {
		return nil
	}
	batch := b.db.NewBatch()
	defer func() { _ = batch.Close() }()
	err = batch.DeleteRange([]byte{tokenSpace}, numbered(tokenSpace, done.bucket), nil)
	if err == nil && first > 0 {
		err = errors.Join(batch.DeleteRange([]byte{feedSpace}, numbered(feedSpace, first), nil),
			batch.DeleteRange([]byte{hourSpace}, from, nil))
	}
	if err != nil {
		return fmt.Errorf("forget old changes: %w", err)
	}
	if err := batch.Commit(pebble.NoSync); err != nil {
		return b.fail(err)
	}
	b.forgotten = done
	return nil
}

// forgotten is how far the feed and the tokens were forgotten.
type forgotten struct{ first, bucket uint64 }

// firstKept gives the first change of the hour in which oldest lies, or of the
// last one before it that had any, with that hour's key; 0 for none.
func (b *Backend) firstKept(oldest time.Time) (first uint64, hour []byte, err error) {
	return lastNote(b.db, numbered(hourSpace, uint64(max(0, hourOf(oldest))+1)))
}

// lastHour is the last one whose first change is noted.
func lastHour(db *pebble.DB) (int64, error) {
	_, key, err := lastNote(db, []byte{hourSpace + 1})
	if err != nil || len(key) != 1+numberBytes {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(key[1:])), nil //nolint:gosec // G115: an hour
}

// lastNote gives the last note of an hour below a key.
func lastNote(db *pebble.DB, upper []byte) (first uint64, key []byte, err error) {
	hours, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{hourSpace}, UpperBound: upper})
	if err != nil {
		return 0, nil, damaged(err)
	}
	if hours.Last() && len(hours.Value()) == numberBytes {
		first, key = binary.BigEndian.Uint64(hours.Value()), bytes.Clone(hours.Key())
	}
	if err := cmp.Or(hours.Error(), hours.Close()); err != nil { // the same, mostly
		return 0, nil, damaged(err)
	}
	return first, key, nil
}
