package operation

import (
	"strconv"

	"github.com/gatewright/gatewright/shared/store"
)

// space has the records of operations by their ids: clients poll them, the
// table's stream tells of their changes. In the due index it has those that a
// sweep has to look at, by the time from which it should.
const space store.Space = "operation"

// Key is the key of an operation's record.
func Key(operationID string) store.Key { return space.Key(operationID) }

// IDOf returns the id of the operation that a key of the stream or of the due
// index is the record of, and whether it is one.
func IDOf(k store.Key) (operationID string, ok bool) { return space.PartOf(k) }

// duePartition is one of the shards of the due index.
func duePartition(shard int) string { return space.Partition(strconv.Itoa(shard)) }
