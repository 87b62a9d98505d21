package operation

import (
	"strconv"

	"github.com/gatewright/gatewright/shared/core/store"
)

// recordPrefix is the key prefix of operations' records, by the operations' ids. Clients
// poll the records, and the table's stream delivers their changes. In the due index the
// prefix has the operations that have not ended, by the time at which they are due.
const recordPrefix store.KeyPrefix = "operation"

// Key returns the key of an operation's record.
func Key(operationID string) store.Key { return recordPrefix.Key(operationID) }

// IDOf returns the operation's id from the key of a record, and reports whether the key is of an operation's record.
func IDOf(k store.Key) (operationID string, ok bool) { return recordPrefix.SinglePart(k) }

// duePartition returns the partition of one shard of the due index.
func duePartition(shard int) string { return recordPrefix.Partition(strconv.Itoa(shard)) }
