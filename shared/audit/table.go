package audit

import (
	"context"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// waitingSpace has the records as the changes' transactions write them, until
	// package trail takes them over. Those of an account are spread over Shards
	// partitions, each in the order of their times. Read by the list, and by the
	// table's stream.
	waitingSpace store.Space = "audit-new"
	// chainedSpace has the records that package trail has taken over, spread over
	// ChainedShards partitions. Read by the list, and by who verifies the chain.
	chainedSpace store.Space = "audit"
)

// Shards is over how many partitions an account's records are spread. A partition
// takes 1,000 write units a second, and a record costs 2 when it is written and
// 2 when it is taken over: 8 of them carry 2,000 changes a second
// (docs/decisions/0036-audit-records-are-chained-behind-the-change.md).
const Shards = 8

// ChainedShards is over how many partitions those are spread that are chained: they
// are written once, and each partition is a query more for the list.
const ChainedShards = 4

// Waiting is the partition of the records of an account's shard that are not
// chained yet.
func Waiting(accountID string, shard int) string {
	return waitingSpace.Partition(accountID, strconv.Itoa(shard))
}

// Chained is the partition of those that are.
func Chained(accountID string, shard int) string {
	return chainedSpace.Partition(accountID, strconv.Itoa(shard))
}

// WaitingKey is the key of a record that is not chained yet.
func WaitingKey(accountID string, e Entry) store.Key {
	return store.In(Waiting(accountID, shard(e.RequestID, Shards)), e.Timestamp, e.RequestID)
}

// ChainedKey is its key afterwards.
func ChainedKey(accountID string, e Entry) store.Key {
	return store.In(Chained(accountID, shard(e.RequestID, ChainedShards)), e.Timestamp, e.RequestID)
}

// IsNew reports whether a key is that of a record that is not chained yet.
func IsNew(k store.Key) bool { return strings.HasPrefix(k.PK, waitingSpace.Partition("")) }

// IsRecord reports whether a key is that of a record of any account, chained or
// not.
func IsRecord(k store.Key) bool {
	return IsNew(k) || strings.HasPrefix(k.PK, chainedSpace.Partition(""))
}

// Decode gives the record that a change has written, and whose it is. ok is false
// for whatever else may stand there: nobody here writes it.
func Decode(item store.Item) (accountID string, e Entry, ok bool) {
	key := store.KeyOf(item)
	parts := waitingSpace.PartsOf(key.PK)
	if len(parts) != 2 || store.Decode(item, &e) != nil {
		return "", Entry{}, false
	}
	if _, err := e.Time(); err != nil || WaitingKey(parts[0], e) != key {
		return "", Entry{}, false
	}
	return parts[0], e, true
}

// New lists the records of an account that are not chained yet, shard by shard.
// They are few, unless what chains them stands still.
func New(ctx context.Context, t *store.Table, accountID string) (out []Entry, err error) {
	for n := range Shards {
		found, err := NewOf(ctx, t, store.Query{PK: Waiting(accountID, n)})
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// NewOf is New for one shard, of which q may ask for a part.
func NewOf(ctx context.Context, t *store.Table, q store.Query) (out []Entry, err error) {
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

// shard spreads records by the ids of their requests, which are random.
func shard(requestID string, of uint32) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(requestID)) // which never fails
	return int(h.Sum32() % of)
}
