package api

import (
	"strconv"

	"github.com/gatewright/gatewright/shared/store"
)

// answerSpace has the answers of requests with an Idempotency-Key (answerRecord).
// Those of one key are a partition: the record, and what of the answer does not
// fit into it.
const answerSpace store.Space = "answers"

func answerPartition(accountKeyID, operation, keyHash string) string {
	return answerSpace.Partition(accountKeyID, operation, keyHash)
}

func answerKey(partition string, part int) store.Key { return store.In(partition, strconv.Itoa(part)) }
