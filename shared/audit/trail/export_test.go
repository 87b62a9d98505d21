package trail

import "github.com/gatewright/gatewright/shared/store"

// Counting is what a transaction adds to the counters, for tests that write records
// past the chain.
type Counting = counters

// End is the write of the end of a chain of so many records, for tests that write
// them past it.
func End(accountID string, records int) store.Write {
	return store.Put(headKey(accountID), head{ID: accountID, Version: 1, Seq: int64(records)})
}

// Minutes is the partition of the finest counters of an account's records.
func Minutes(accountID string) string { return countPartition(accountID, "", levels[len(levels)-1]) }
