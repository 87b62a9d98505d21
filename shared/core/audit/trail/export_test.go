package trail

import "github.com/gatewright/gatewright/shared/core/store"

// Counters collects a transaction's additions to the counters, for tests that write records without chaining them.
type Counters = counters

// End returns the write of the end of a chain with the given number of records, for tests that write records without
// chaining them.
func End(accountID string, records int) store.Write {
	return store.Put(headKey(accountID), head{ID: accountID, Version: 1, Seq: int64(records)})
}

// Minutes returns the partition of the finest counters of an account's records.
func Minutes(accountID string) string { return countPartition(accountID, "", levels[len(levels)-1]) }
