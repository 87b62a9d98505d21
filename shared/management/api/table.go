package api

import (
	"strconv"

	"github.com/gatewright/gatewright/shared/core/store"
)

// responsePrefix is the key prefix of the responses to requests with an Idempotency-Key (idempotencyRecord). Each
// Idempotency-Key has a partition with the record, and with the parts of the response that do not fit into the record.
const responsePrefix store.KeyPrefix = "answers"

func responsePartition(accountKeyID, operation, keyHash string) string {
	return responsePrefix.Partition(accountKeyID, operation, keyHash)
}

func responseKey(partition string, part int) store.Key {
	return store.KeyIn(partition, strconv.Itoa(part))
}
