package counts

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"
)

// maxAttempts is the maximum number of attempts to commit a batch that conflicts with other gateways (errConflict).
// After that, the batch waits until the next write.
const maxAttempts = 8

// maxIntervals is the maximum number of intervals in one pending row: enough for an hour of writes by several gateways
// without a rollup. The maximum size of a rollup's transaction limits this number. If a row would have more intervals,
// merge joins the two closest intervals.
const maxIntervals = 14

// errConflict is returned for a batch if a pending row has changed since it was read, or cannot be read. No row of the
// batch is written.
var errConflict = errors.New("counts: others have written to the same rows at the same time")

// commit commits a batch. It retries after errConflict, with at most maxAttempts attempts.
func (c *Collector) commit(ctx context.Context, b *batch) error {
	for try := 1; ; try++ {
		err := c.tryCommit(ctx, b, try == maxAttempts)
		if !errors.Is(err, errConflict) || try == maxAttempts {
			return err
		}
	}
}

// tryCommit merges each row of a batch into a pending row of the same deployment. A deployment has several pending
// rows, called buckets, and each attempt uses another bucket. tryCommit returns errConflict if a pending row has
// changed since it was read. The same transaction stores the batch's sequence number, so that a batch is counted only
// once.
//
// A later release may have written a bucket in a form that tryCommit cannot read. tryCommit then returns errConflict,
// so that the next attempt uses another bucket. In the last attempt, tryCommit drops the row of this deployment from
// the batch and logs the loss. The other rows of the batch are written.
func (c *Collector) tryCommit(ctx context.Context, b *batch, lastAttempt bool) error {
	stored, gets := make([]pendingRow, len(b.rows)), make([]*store.ReadRequest, len(b.rows))
	keys := make([]store.Key, len(b.rows))
	for i, r := range b.rows {
		keys[i] = bucketKey(r.deployment, c.bucket(b, r.deployment))
		gets[i] = store.Get(keys[i], &stored[i])
	}
	b.attempts++
	if err := c.table.Load(ctx, gets...); err != nil {
		return err
	}
	now := c.now()
	writes := []store.Write{store.Put(writerKey(c.id), writerState{Seq: b.seq, TTL: now.Add(writerRetention).Unix()}).
		If(store.Or(store.Absent(), store.Less(store.At("seq"), b.seq))).Else(errAlreadyWritten)}
	var unreadable []string
	for i, r := range b.rows {
		next := pendingRow{
			row:     row{Data: r.data, TTL: now.Add(pendingRetention).Unix()},
			Version: fmt.Sprintf("%s.%d", c.id, b.seq), DuePK: duePartition(), DueSK: formatTime(now.Unix()),
		}
		condition := store.Absent()
		if gets[i].Found {
			var err error
			if next.Data, err = mergeData(stored[i].Data, r.data); err != nil {
				c.log.WarnContext(ctx, "what waits of a deployment's counts cannot be read", "deployment", r.deployment, "error",
					err)
				unreadable = append(unreadable, r.deployment)
				continue
			}
			next.UnknownAttributes, next.DueSK, condition = stored[i].UnknownAttributes, stored[i].DueSK,
				stored[i].versionUnchanged()
		}
		writes = append(writes, store.Put(keys[i], next).If(condition).Else(errConflict))
	}
	if len(unreadable) > 0 && !lastAttempt {
		return errConflict
	}
	b.rows = slices.DeleteFunc(b.rows, func(r batchRow) bool {
		lost := slices.Contains(unreadable, r.deployment)
		if lost {
			c.log.WarnContext(ctx, "requests were not counted: what waits of their deployment cannot be read", "deployment",
				r.deployment, "requests", r.calls)
		}
		return lost
	})
	return c.table.Commit(ctx, writes...)
}

// bucket returns the index of the bucket for a row of a batch. The index changes with each write and each attempt. So
// two writes of one gateway collide no more often than writes of two gateways.
func (c *Collector) bucket(b *batch, deployment string) int {
	// stride is the distance between the buckets of two attempts. It is coprime to bucketCount, so that attempts use
	// different buckets. It is greater than the number of writes of Run in a minute.
	const stride = 13
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.id + deployment))
	return (int(h.Sum32()) + b.round + stride*b.attempts) % c.buckets
}

// mergeData returns the encoded sum of two rows.
func mergeData(stored, added []byte) ([]byte, error) {
	pending, err := unpackPending(stored)
	if err != nil {
		return nil, err
	}
	other, err := unpackPending(added)
	if err != nil {
		return nil, err
	}
	pending.merge(other)
	return pending.pack()
}

// merge adds the counts and single calls of other to c. If c then has more than maxIntervals intervals, merge joins the
// closest intervals.
func (c *pendingCounts) merge(other *pendingCounts) {
	for _, s := range other.intervals {
		i := slices.IndexFunc(c.intervals, func(existing intervalTally) bool { return existing.start == s.start })
		if i < 0 {
			i = len(c.intervals)
			c.intervals = append(c.intervals, intervalTally{s.start, newTally()})
		}
		c.intervals[i].merge(s.tally)
	}
	for len(c.intervals) > maxIntervals {
		c.mergeClosest(0) // 0 only selects the result, which is not used
	}
	c.recent.merge(&other.recent)
}
