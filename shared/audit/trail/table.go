package trail

import (
	"github.com/gatewright/gatewright/shared/store"
)

const (
	// headSpace has the end of each account's chain: read and moved on by what
	// chains records, read by the list, which has to see the whole of one state.
	headSpace store.Space = "audit-head"
	// countSpace has the numbers of an account's chained records, of all or of an
	// actor's, by windows of time: those of one length are a partition, in the
	// order of time. Read by the list for its total, and for where a page begins.
	countSpace store.Space = "audit-count"
)

func headKey(accountID string) store.Key { return headSpace.Key(accountID) }

// countPartition has the counters of an actor, of all for "".
func countPartition(accountID, actor string, l level) string {
	return countSpace.Partition(accountID, l.name, actor)
}
