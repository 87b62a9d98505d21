package trail

import "github.com/gatewright/gatewright/shared/core/store"

// Counters collects a transaction's additions to the counters, for tests that write records without chaining them.
type Counters = counters

// PutHead returns the write that stores the head of a chain with the given number of records, for tests that write
// records without chaining them.
func PutHead(accountID string, records int) store.Write {
	return store.Put(headKey(accountID), head{ID: accountID, Version: 1, Seq: int64(records)})
}

// MinutePartition returns the partition with the counters for each minute of an account's records, for all actors.
func MinutePartition(accountID string) string {
	return countPartition(accountID, "", levels[len(levels)-1])
}
