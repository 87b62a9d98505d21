package audit

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// pendingPrefix is the key prefix of records that are not chained yet. The changes' transactions write these
	// records, and package trail deletes a record when it chains it. The records of an account are spread over
	// Shards partitions, each in the order of time. The list and the table's stream read them.
	pendingPrefix store.KeyPrefix = "audit-new"
	// chainedPrefix is the key prefix of records that package trail has chained, spread
	// over ChainedShards partitions. The list and the verification of the chain read them.
	chainedPrefix store.KeyPrefix = "audit"
)

// Shards is the number of partitions of an account's pending records. A partition accepts 1,000 write
// units per second. A record costs 2 units when it is written and 2 when it is chained, so 8 partitions
// accept 2,000 changes per second (docs/decisions/0036-audit-records-are-chained-behind-the-change.md).
const Shards = 8

// ChainedShards is the number of partitions of an account's chained records. There are fewer than
// Shards, because a chained record is written only once, and a list needs a query for each partition.
const ChainedShards = 4

// PendingPartition returns the partition of the pending records in a shard of an account.
func PendingPartition(accountID string, shard int) string {
	return pendingPrefix.Partition(accountID, strconv.Itoa(shard))
}

// ChainedPartition returns the partition of the chained records in a shard of an account.
func ChainedPartition(accountID string, shard int) string {
	return chainedPrefix.Partition(accountID, strconv.Itoa(shard))
}

// PendingKey returns the key of a record that is not chained yet.
func PendingKey(accountID string, e Entry) store.Key {
	return store.KeyIn(PendingPartition(accountID, shard(e.RequestID, Shards)), e.Timestamp, e.RequestID)
}

// ChainedKey returns the key of a chained record.
func ChainedKey(accountID string, e Entry) store.Key {
	return store.KeyIn(ChainedPartition(accountID, shard(e.RequestID, ChainedShards)), e.Timestamp, e.RequestID)
}

// IsPending reports whether the key is of a record that is not chained yet.
func IsPending(k store.Key) bool { return strings.HasPrefix(k.PK, pendingPrefix.Partition("")) }

// IsRecord reports whether the key is of an audit record, chained or not.
func IsRecord(k store.Key) bool {
	return IsPending(k) || strings.HasPrefix(k.PK, chainedPrefix.Partition(""))
}

// Decode decodes a pending record and returns its account. ok is false if the
// item is not a record. The product writes no such items in these partitions.
func Decode(item store.Item) (accountID string, e Entry, ok bool) {
	key := store.KeyOf(item)
	parts := pendingPrefix.Parts(key.PK)
	if len(parts) != 2 || store.Decode(item, &e) != nil {
		return "", Entry{}, false
	}
	if _, err := e.Time(); err != nil || PendingKey(parts[0], e) != key {
		return "", Entry{}, false
	}
	return parts[0], e, true
}

// ListPending returns the records of an account that are not chained yet,
// shard by shard. There are few of them, unless chaining has stopped.
func ListPending(ctx context.Context, t *store.Table, accountID string) (out []Entry, err error) {
	for n := range Shards {
		found, err := ListPendingInShard(ctx, t, store.Query{PK: PendingPartition(accountID, n)})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// ListPendingInShard returns the pending records that q selects in the partition of one shard.
func ListPendingInShard(ctx context.Context, t *store.Table, q store.Query) (out []Entry, err error) {
	err = t.Each(ctx, q, func(item store.Item) (bool, error) {
		if _, e, ok := Decode(item); ok {
			out = append(out, e)
		}
		return true, nil
	})
	if err != nil {
		return nil, fmt.Errorf("list new audit records: %w", err)
	}
	return out, nil
}

// shard returns the shard of a record from its request's id, which is random.
func shard(requestID string, shards uint32) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(requestID)) // never fails
	return int(h.Sum32() % shards)
}
