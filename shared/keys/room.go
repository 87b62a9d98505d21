package keys

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/limits/counts"
	"github.com/gatewright/gatewright/shared/store"
)

// countShards spread a bucket's count of consumers over items, since an item
// takes one transaction at a time.
const countShards = 16

// countRow is one of the shards. How many consumers the account may have is given to it in portions: a creation that had
// to raise one bound of the account would have all creations of the account wait for each other. All portions together are
// the account's bound (package counts), and a creation moves one from Room to Consumers, a deletion one back: the sum of
// both changes with the account's bound alone.
type countRow struct {
	store.Rest

	Consumers int `dynamodbav:"consumers"`
	// Room is how many more it may count.
	Room int64 `dynamodbav:"room"`
}

// A portion is a part of what the account has left, as long as that is much, so that what lies
// idle in the shards is little where it matters.
const (
	portionShare = 64
	maxPortion   = 100
)

// shardOf is the shard that counts a consumer.
func shardOf(g generation, consumer string) store.Key {
	h := fnv.New32a()
	_, _ = h.Write([]byte(consumer))
	return consumerCountKey(g, strconv.Itoa(int(h.Sum32()%countShards)))
}

// counted are the changes of a shard that counts n more consumers.
func counted(n int64) []store.Change {
	return []store.Change{store.Add(store.At("consumers"), n), store.Add(store.At("room"), -n)}
}

// uncount takes a consumer out of the count.
func uncount(g generation, consumer string) store.Write {
	return store.Upsert(shardOf(g, consumer), counted(-1)...)
}

// countIn counts a new consumer of the bucket in v. Where its shard has no room, the account gives it a portion in the
// same transaction; where the account has none left either, it takes back what lies idle in others. Room of a shard is gone
// by only as long as the account's bound is below its limit: one that was lowered ends what was given out before.
// Fault: the refusal of limits.Consumers.
func (s *Service) countIn(ctx context.Context, v view, t *counts.Tally, consumer string) ([]store.Write, error) {
	shard, room := shardOf(v.g, consumer), store.At("room")
	var portion int64
	writes := []store.Write{store.Upsert(shard, counted(1)...).If(store.AtLeast(room, 1)).Else(store.ErrStale)}
	switch {
	case v.shard.Room > 0 && t.Holds():
		return writes, nil
	case v.shard.Room <= 0:
		portion = min(max(t.Room()/portionShare, 1), maxPortion)
		writes = []store.Write{store.Upsert(shard, store.Add(store.At("consumers"), 1), store.Add(room, portion-1)).
			If(store.Or(store.Lacks(room), store.AtMost(room, 0))).Else(store.ErrStale)}
	}
	var idle []idleRow
	var there int64
	raised, err := t.Take(ctx, portion, func(ctx context.Context) (n int64, err error) {
		idle, there, err = s.portions(ctx, v.bucket.AccountID)
		return there, err
	})
	if counts.IsRefusal(err) {
		return nil, s.reclaim(ctx, t, idle, there+portion-t.Most(), err)
	}
	if err != nil {
		return nil, err
	}
	return append(writes, raised), nil
}

// idleRow is a shard with room.
type idleRow struct {
	key  store.Key
	room int64
}

const (
	// reclaimedAtOnce is how many shards give their room back in one transaction.
	reclaimedAtOnce = 90
	// reclaimedMost is how many do for one attempt of a creation.
	reclaimedMost = 10 * reclaimedAtOnce
)

// reclaim takes back the room of shards, as much as the account lacks, after which the creation is decided again. Where none
// has any, the account is full: it answers refusal.
func (s *Service) reclaim(ctx context.Context, t *counts.Tally, idle []idleRow, lacks int64, refusal error) error {
	if len(idle) == 0 {
		return refusal
	}
	slices.SortFunc(idle, func(a, b idleRow) int { return cmp.Compare(b.room, a.room) })
	ctx = store.Undecided(ctx, "each write asks for what it takes back")
	for rows := range slices.Chunk(idle[:min(len(idle), reclaimedMost)], reclaimedAtOnce) {
		var sum int64
		var writes []store.Write
		for _, row := range rows {
			sum += row.room
			writes = append(writes, store.Update(row.key, store.Set(store.At("room"), 0)).
				If(store.Equal(store.At("room"), row.room)).Else(store.ErrStale))
		}
		if err := s.table.Commit(ctx, append(writes, t.GiveBack(sum))...); err != nil {
			return err
		}
		if lacks -= sum; lacks <= 0 {
			break
		}
	}
	return fmt.Errorf("room was taken back: %w", store.ErrStale)
}

// portionReaders is how many buckets are counted at the same time.
const portionReaders = 16

// portions adds up what the shards of all buckets of an account have, and lists those with room.
func (s *Service) portions(ctx context.Context, accountID string) (idle []idleRow, sum int64, err error) {
	buckets, err := s.bucketsOf(ctx, accountID)
	if err != nil {
		return nil, 0, err
	}
	found := make([][]shardRow, len(buckets))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(portionReaders)
	for i, b := range buckets {
		group.Go(func() (err error) {
			found[i], err = store.Collect[shardRow](ctx, s.table, store.Query{
				PK:        consumerCountPartition(b.qualifiedName().generation(b.Generation)),
				Unchecked: portionsUnchecked,
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, 0, err
	}
	for i, b := range buckets {
		for _, row := range found[i] {
			sum += int64(row.Consumers) + row.Room
			if row.Room > 0 {
				idle = append(idle, idleRow{consumerCountKey(b.qualifiedName().generation(b.Generation), row.SK), row.Room})
			}
		}
	}
	return idle, sum, nil
}

// portionsUnchecked is why a count of shards is no snapshot and right nevertheless.
const portionsUnchecked = "the sum of a shard changes with the account's bound alone, whose turn the commit asks for"

// shardRow is a shard, known by its sort key.
type shardRow struct {
	store.Rest

	countRow
	SK string `dynamodbav:"sk"`
}

// bucketsOf are the buckets of an account that are there.
func (s *Service) bucketsOf(ctx context.Context, accountID string) ([]bucketRecord, error) {
	var out []bucketRecord
	err := store.Visit(ctx, s.table, store.Query{
		PK: bucketPartition(accountID), Unchecked: "who makes a bucket raises the account's bound, whose turn the commit asks for",
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

// takeBuckets is the write that goes with n new buckets of an account. Fault: the refusal of limits.KeyBuckets.
func (s *Service) takeBuckets(ctx context.Context, t *counts.Tally, accountID string, n int64) (store.Write, error) {
	return t.Take(ctx, n, func(ctx context.Context) (int64, error) {
		all, err := s.bucketsOf(ctx, accountID)
		return int64(len(all)), err
	})
}
