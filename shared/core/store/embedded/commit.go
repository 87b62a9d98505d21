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

	"github.com/gatewright/gatewright/shared/core/store"
)

// Transact implements store.Backend. A commit evaluates its conditions and applies its effects
// under a lock, so only one commit does this at a time. The commit waits for the fsync,
// which makes the effects durable, without the lock. So waiting commits share one fsync.
func (b *Backend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.RefuseInDryRun(ctx); err != nil {
		return err
	}
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	start := time.Now()
	batch, c, err := b.apply(ctx, token, writes)
	if err != nil {
		if _, condition := errors.AsType[*store.ConditionError](err); condition || errors.Is(err, store.ErrTokenReused) {
			// The commits that made the condition false, or that used the token, may not be on disk yet.
			return errors.Join(err, b.waitDurable(ctx, affectsItems(writes)))
		}
		return err
	}
	if c == nil { // the same transaction was committed before
		return b.waitDurable(ctx, nil)
	}
	if err := b.waitSynced(batch, c); err != nil {
		return err
	}
	b.reportDuration(start)
	return nil
}

// waitSynced waits until a commit is on disk, and then acknowledges it.
func (b *Backend) waitSynced(batch *pebble.Batch, c *pendingCommit) error {
	err := batch.SyncWait()
	if err == nil {
		err = b.checkNotMoved()
	}
	if err == nil {
		err = b.ack.advance(c.seq)
	}
	if err != nil {
		// Calls that have read the effects of the commit, or wait for it, return the error of usable.
		err = b.fail(err)
		b.pending.complete(c, 0)
		return err
	}
	b.pending.complete(c, c.seq)
	_ = batch.Close()
	return nil
}

// apply makes a transaction's effects readable but not yet durable. It
// returns a nil pendingCommit if the same transaction was committed before.
func (b *Backend) apply(
	ctx context.Context, token string, writes []store.Write,
) (*pebble.Batch, *pendingCommit, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.o.Now()
	digest := store.Digest(writes)
	earlier, applied, err := b.tokenDigest(token, now)
	switch {
	case err != nil:
		return nil, nil, err
	case applied && earlier != digest:
		return nil, nil, store.ErrTokenReused
	case applied:
		store.ChargeRetry(ctx, writes)
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
	if err := batch.Set(tokenKey(token, now), encodeNumber(digest), nil); err != nil {
		return nil, nil, fmt.Errorf("note a token: %w", err)
	}
	return b.applyBatch(batch, effects)
}

// applyBatch applies a batch with effects, which makes the effects readable.
func (b *Backend) applyBatch(batch *pebble.Batch, effects []store.Effect) (*pebble.Batch, *pendingCommit, error) {
	c := &pendingCommit{effects: effects, seq: b.seq + uint64(max(1, len(effects))), done: make(chan struct{})}
	if err := batch.Set(lastKey, encodeNumber(c.seq), nil); err != nil {
		return nil, nil, fmt.Errorf("note the last change: %w", err)
	}
	b.pending.add(c)
	err := b.db.ApplyNoSyncWait(batch, pebble.Sync)
	if err == nil {
		err = b.usable() // reports a log that cannot be written
	}
	if err != nil {
		b.pending.complete(c, 0)
		return nil, nil, b.fail(err)
	}
	b.seq = c.seq
	return batch, c, nil
}

// fill adds the effects of a transaction to a batch: items, index entries, changes for the feed, and the first change
// of an hour. It wakes the housekeeping if an item expires before the next run.
func (b *Backend) fill(batch *pebble.Batch, effects []store.Effect, now time.Time) error {
	seq := b.seq
	for _, e := range effects {
		if e.Before == e.After {
			continue // a check, or a deletion of an item that does not exist
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
		if err := batch.Set(numberedKey(feedPrefix, seq), change, nil); err != nil {
			return fmt.Errorf("write the feed: %w", err)
		}
		if ttl, ok := expiry(e.After); ok && ttl < b.nextCleanup.Load() {
			b.wakeHousekeeping()
		}
	}
	return b.recordHour(batch, now)
}

// write adds an effect to a batch: the item, its entry in the due index, and its entry in the expiry list. It removes
// the entries of the item before.
func write(batch *pebble.Batch, e store.Effect) error {
	var errs []error
	set := func(key, value []byte) { errs = append(errs, batch.Set(key, value, nil)) }
	remove := func(key []byte) { errs = append(errs, batch.Delete(key, nil)) }
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
		return errors.Join(errs...)
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
	return errors.Join(errs...)
}

// expiry returns the time after which an item can be deleted, in seconds since 1970. ok is false if the item does not
// exist or has no valid ttl.
func expiry(s *store.Stored) (ttl int64, ok bool) {
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

// stored reads an item in the state that a commit sees, nil if it does not exist.
func (b *Backend) stored(key store.Key) (*store.Stored, error) { return readItem(b.db, key) }

func readItem(from pebble.Reader, key store.Key) (*store.Stored, error) {
	raw, closer, err := from.Get(itemKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, readError(err)
	}
	defer func() { _ = closer.Close() }()
	s, err := decodeStored(key, raw)
	if err != nil {
		return nil, readError(err)
	}
	return s, nil
}

// tokenLifetime is the minimum time for which a token is remembered, as in DynamoDB.
const tokenLifetime = 10 * time.Minute

func tokenBucket(at time.Time) uint64 {
	return uint64(max(0, at.Unix()) / int64(tokenLifetime/time.Second))
}

func tokenKey(token string, at time.Time) []byte {
	return append(numberedKey(tokenPrefix, tokenBucket(at)), token...)
}

// tokenDigest returns the digest of the transaction that used a token. ok is false if no remembered transaction did.
func (b *Backend) tokenDigest(token string, now time.Time) (digest uint64, ok bool, err error) {
	for _, at := range []time.Time{now, now.Add(-tokenLifetime)} {
		raw, closer, err := b.db.Get(tokenKey(token, at))
		if errors.Is(err, pebble.ErrNotFound) {
			continue
		}
		if err != nil {
			return 0, false, readError(err)
		}
		defer func() { _ = closer.Close() }()
		if len(raw) != numberBytes {
			return 0, false, readError(errDamaged)
		}
		return binary.BigEndian.Uint64(raw), true, nil
	}
	return 0, false, nil
}

// pendingCommit is a commit that is readable but may not be on disk yet.
type pendingCommit struct {
	effects []store.Effect
	seq     uint64        // at least the number of its last change; the next commit's changes have greater numbers
	done    chan struct{} // closed when the commit is on disk or has failed
}

// pendingCommits holds all pending commits, and the position up to which the log is on disk.
type pendingCommits struct {
	mu         sync.Mutex
	all        map[*pendingCommit]struct{}
	durableSeq uint64        // all changes up to this number are on disk
	advanced   chan struct{} // closed when durableSeq rises
}

func (pc *pendingCommits) init() {
	pc.all, pc.advanced = map[*pendingCommit]struct{}{}, make(chan struct{})
}

func (pc *pendingCommits) add(c *pendingCommit) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	pc.all[c] = struct{}{}
}

// complete records that a pending commit has ended, and that all changes up to seq are on disk, because the log is
// written in order. seq is 0 for a commit that failed.
func (pc *pendingCommits) complete(c *pendingCommit, seq uint64) {
	pc.mu.Lock()
	delete(pc.all, c)
	pc.mu.Unlock()
	pc.setDurable(seq)
	close(c.done)
}

func (pc *pendingCommits) setDurable(seq uint64) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if seq > pc.durableSeq {
		pc.durableSeq = seq
		close(pc.advanced)
		pc.advanced = make(chan struct{})
	}
}

// progress returns the number of the last change that is on disk,
// and a channel that is closed when more changes are on disk.
func (pc *pendingCommits) progress() (uint64, <-chan struct{}) {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	return pc.durableSeq, pc.advanced
}

// waitDurable waits until data that was read is on disk. It waits for the pending commits that affect the data,
// or for all pending commits if affects is nil. So a power cut cannot revert anything that a caller has read.
func (b *Backend) waitDurable(ctx context.Context, affects func(store.Effect) bool) error {
	b.pending.mu.Lock()
	var awaited []*pendingCommit
	for c := range b.pending.all {
		if affects == nil || slices.ContainsFunc(c.effects, affects) {
			awaited = append(awaited, c)
		}
	}
	b.pending.mu.Unlock()
	for _, c := range awaited {
		select {
		case <-c.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return b.usable()
}

// affectsItems returns a function that reports whether an effect concerns an item of writes.
func affectsItems(writes []store.Write) func(store.Effect) bool {
	return func(e store.Effect) bool {
		return slices.ContainsFunc(writes, func(w store.Write) bool { return w.Key == e.Key })
	}
}
