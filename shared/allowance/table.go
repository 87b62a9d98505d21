package allowance

import "github.com/gatewright/gatewright/shared/store"

// space has the allowances (a rate limit's window, a quota's period) by name
// and period: one item takes the leases of all instances. In its partition is
// one more item for each lease that was given back, so that none is twice; a
// quota's has none, since its returns are in a journal.
const space store.Space = "allowance"

func (p period) key() store.Key { return space.Key(p.name, p.String()) }

func (p period) returnKey(id string) store.Key { return store.In(p.key().PK, "return", id) }

// journalSpace has the journals of the instances that hold parts of quotas, by an
// id that is random. In the due index it has those with entries, by the time from
// which their instance is held to be dead.
const journalSpace store.Space = "allowance-journal"

func journalKey(id string) store.Key { return journalSpace.Key(id) }

// duePartition is where a sweep finds journals. One shard takes them all: an
// instance moves its entry every dueStep at most.
func duePartition() string { return journalSpace.Partition("due") }

// receiptSpace has what was counted once for a key of the caller's, by the
// allowance's name and the hash of the key: it may be a retry of the period before.
const receiptSpace store.Space = "allowance-receipt"
