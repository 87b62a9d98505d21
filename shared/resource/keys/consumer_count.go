package keys

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/core/limits/counts"
	"github.com/gatewright/gatewright/shared/core/store"
)

// countShards is the number of items (shards) over which the count of a bucket's consumers is distributed. One item
// would be a bottleneck, because only one transaction at a time can change an item.
const countShards = 16

// consumerCountPrefix is the key prefix of the shards that count a bucket's consumers (countRow). A query of the
// bucket's partition returns all its shards.
const consumerCountPrefix store.KeyPrefix = "consumer-count"

// countRow is the record of a shard. The account's limit on consumers is distributed to the shards in portions:
// otherwise each creation would have to raise the bound of the account (package counts), and all creations of the
// account would wait for each other. The bound is at least the sum of Consumers and Capacity of all shards. A creation
// moves one unit from Capacity to Consumers, and a deletion moves one back, so neither changes the sum of the two. The
// sum of a shard changes only in a transaction that also changes the bound.
type countRow struct {
	store.UnknownAttributes

	Consumers int `dynamodbav:"consumers"`
	// Capacity is the number of consumers that can still be counted in the shard before it needs another portion.
	Capacity int64 `dynamodbav:"room"`
}

func consumerCountKey(g generation, shard string) store.Key {
	return store.KeyIn(consumerCountPartition(g), shard)
}

func consumerCountPartition(g generation) string { return consumerCountPrefix.Partition(string(g)) }

// A portion is 1/portionShare of the account's remaining capacity, but at least 1 and at most maxPortion. So portions
// become smaller as the account fills up, and the shards have little unused capacity when it is nearly full.
const (
	portionShare = 64
	maxPortion   = 100
)

// shardOf returns the key of the shard that counts a consumer.
func shardOf(g generation, consumer string) store.Key {
	h := fnv.New32a()
	_, _ = h.Write([]byte(consumer))
	return consumerCountKey(g, strconv.Itoa(int(h.Sum32()%countShards)))
}

// countChanges returns the changes of a shard to which n consumers are added. n may be negative.
func countChanges(n int64) []store.Change {
	return []store.Change{store.Add(store.At("consumers"), n), store.Add(store.At("room"), -n)}
}

// uncountWrite returns the write that subtracts a deleted consumer from its shard.
func uncountWrite(g generation, consumer string) store.Write {
	return store.Upsert(shardOf(g, consumer), countChanges(-1)...)
}

// reserveConsumer returns the writes that count a new consumer of the bucket in v. If the consumer's shard has no
// capacity, the writes also add a portion of the account's capacity to the shard. If the account has no capacity left,
// reserveConsumer reclaims unused capacity from other shards. If the operator has lowered the limit below the account's
// bound, the capacity of the shards cannot be used until a new count (Reserve) shows that the account is within the
// limit. If the limit limits.Consumers is reached, reserveConsumer returns a fault.
func (s *Service) reserveConsumer(
	ctx context.Context, v view, counter *counts.Counter, consumer string,
) ([]store.Write, error) {
	shard, capacity := shardOf(v.generation, consumer), store.At("room")
	var portion int64
	writes := []store.Write{store.Upsert(shard, countChanges(1)...).If(store.AtLeast(capacity, 1)).Else(store.ErrStale)}
	switch {
	case v.shard.Capacity > 0 && counter.WithinLimit():
		return writes, nil
	case v.shard.Capacity <= 0:
		portion = min(max(counter.Capacity()/portionShare, 1), maxPortion)
		writes = []store.Write{store.Upsert(shard, store.Add(store.At("consumers"), 1), store.Add(capacity, portion-1)).
			If(store.Or(store.Lacks(capacity), store.AtMost(capacity, 0))).Else(store.ErrStale)}
	}
	var idle []idleShard
	var total int64
	reservation, err := counter.Reserve(ctx, portion, func(ctx context.Context) (n int64, err error) {
		idle, total, err = s.shardTotals(ctx, v.bucket.AccountID)
		return total, err
	})
	if counts.IsForbidden(err) {
		return nil, s.reclaim(ctx, counter, idle, total+portion-counter.Max(), err)
	}
	if err != nil {
		return nil, err
	}
	return append(writes, reservation), nil
}

// idleShard is a shard with unused capacity.
type idleShard struct {
	key      store.Key
	capacity int64
}

const (
	// reclaimBatchSize is the maximum number of shards whose capacity one transaction reclaims.
	reclaimBatchSize = 90
	// maxReclaimedShards is the maximum number of shards from which one attempt of a creation reclaims capacity.
	maxReclaimedShards = 10 * reclaimBatchSize
)

// reclaim takes unused capacity from the shards in idle and releases it to the account, until the account has the
// missing capacity. It then returns store.ErrStale, so that the creation runs again. If no shard has unused capacity,
// the account is full, and reclaim returns refusal.
func (s *Service) reclaim(
	ctx context.Context, counter *counts.Counter, idle []idleShard, missing int64, refusal error,
) error {
	if len(idle) == 0 {
		return refusal
	}
	slices.SortFunc(idle, func(a, b idleShard) int { return cmp.Compare(b.capacity, a.capacity) })
	ctx = store.WithoutReadSet(ctx, "each write checks the capacity that it reclaims")
	for rows := range slices.Chunk(idle[:min(len(idle), maxReclaimedShards)], reclaimBatchSize) {
		var sum int64
		var writes []store.Write
		for _, row := range rows {
			sum += row.capacity
			writes = append(writes, store.Update(row.key, store.Set(store.At("room"), 0)).
				If(store.Equal(store.At("room"), row.capacity)).Else(store.ErrStale))
		}
		if err := s.table.Commit(ctx, append(writes, counter.Release(sum))...); err != nil {
			return err
		}
		if missing -= sum; missing <= 0 {
			break
		}
	}
	return fmt.Errorf("room was taken back: %w", store.ErrStale)
}

// maxConcurrentBuckets is the maximum number of buckets whose shards are read concurrently.
const maxConcurrentBuckets = 16

// shardTotals reads the shards of all buckets of an account. It returns the shards with unused capacity, and the sum of
// Consumers and Capacity of all shards.
func (s *Service) shardTotals(ctx context.Context, accountID string) (idle []idleShard, sum int64, err error) {
	buckets, err := s.bucketsOf(ctx, accountID)
	if err != nil {
		return nil, 0, err
	}
	found := make([][]shardRow, len(buckets))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxConcurrentBuckets)
	for i, b := range buckets {
		group.Go(func() (err error) {
			found[i], err = store.Collect[shardRow](ctx, s.table, store.Query{
				PK:        consumerCountPartition(b.qualifiedName().generation(b.Generation)),
				Unchecked: portionsUncheckedReason,
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	for i, b := range buckets {
		for _, row := range found[i] {
			sum += int64(row.Consumers) + row.Capacity
			if row.Capacity > 0 {
				idle = append(idle, idleShard{consumerCountKey(b.qualifiedName().generation(b.Generation), row.SK), row.Capacity})
			}
		}
	}
	return idle, sum, nil
}

// portionsUncheckedReason is the reason why a sum of shards is correct although the shards are not read as a snapshot
// (store.Query.Unchecked).
const portionsUncheckedReason = "each commit that changes the sum of a shard also changes the account's counter, and " +
	"the commit checks the counter's revision"

// shardRow is a shard with its sort key.
type shardRow struct {
	store.UnknownAttributes

	countRow
	SK string `dynamodbav:"sk"`
}

// bucketsOf returns the buckets of an account, without tombstones.
func (s *Service) bucketsOf(ctx context.Context, accountID string) ([]bucketRecord, error) {
	var out []bucketRecord
	err := store.Visit(ctx, s.table, store.Query{
		PK:        bucketPartition(accountID),
		Unchecked: "each creation also changes the account's counter, and the commit checks the counter's revision",
	}, func(b bucketRecord) bool {
		if b.exists() {
			out = append(out, b)
		}
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("read the key buckets of an account: %w", err)
	}
	return out, nil
}

// reserveBuckets returns the write that counts n new buckets of an account. If the limit limits.KeyBuckets would be
// exceeded, it returns a fault.
func (s *Service) reserveBuckets(
	ctx context.Context, counter *counts.Counter, accountID string, n int64,
) (store.Write, error) {
	return counter.Reserve(ctx, n, func(ctx context.Context) (int64, error) {
		all, err := s.bucketsOf(ctx, accountID)
		return int64(len(all)), err
	})
}
