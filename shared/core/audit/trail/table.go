package trail

import (
	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// headPrefix is the key prefix of heads: the end of each account's chain. Chaining
	// reads and advances a head. The list reads it to show one consistent state.
	headPrefix store.KeyPrefix = "audit-head"
	// countPrefix is the key prefix of counters. They have the numbers of an account's chained records in
	// windows of time, for all actors and for each actor. Windows of the same length are one partition, in
	// the order of time. The list reads the counters for its total, and to find the beginning of a page.
	countPrefix store.KeyPrefix = "audit-count"
)

func headKey(accountID string) store.Key { return headPrefix.Key(accountID) }

// countPartition returns the partition with an actor's counters of a level. actor is "" for all actors.
func countPartition(accountID, actor string, l level) string {
	return countPrefix.Partition(accountID, l.name, actor)
}
