package allowance

import "github.com/gatewright/gatewright/shared/core/store"

// recordPrefix is the key prefix of allowances (a rate limit's window, a quota's period), by name and period.
// One item counts the leases of all instances. Its partition has another item for each lease that was returned,
// so that no lease is returned twice. A quota has no such items, because its returns are in a journal.
const recordPrefix store.KeyPrefix = "allowance"

func (p period) key() store.Key { return recordPrefix.Key(p.name, p.String()) }

func (p period) returnKey(id string) store.Key { return store.KeyIn(p.key().PK, "return", id) }

// journalPrefix is the key prefix of journals, each with a random ID. An instance that holds quota units has one or more
// journals. Journals with entries are in the due index, sorted by the time from which their instance is presumed dead.
const journalPrefix store.KeyPrefix = "allowance-journal"

func journalKey(id string) store.Key { return journalPrefix.Key(id) }

// duePartition returns the partition of the due index with the journals. One shard is
// enough: while a journal has entries, it moves in the index at most once per dueStep.
func duePartition() string { return journalPrefix.Partition("due") }

// receiptPrefix is the key prefix of receipts, by the allowance's name and the hash of an idempotency key. A receipt says
// that the units of this key were counted. Its table key has no period, because a retry can follow in the next period.
const receiptPrefix store.KeyPrefix = "allowance-receipt"
