package audit

import (
	"strings"

	"github.com/gatewright/gatewright/shared/store"
)

// space has the audit records. Those of an account's day are a partition, in
// the order of their times: lists read it by time, and no partition grows for
// ever.
const space store.Space = "audit"

// Partition holds the audit records of an account's day (UTC, "2006-01-02").
func Partition(accountID, day string) string { return space.Partition(accountID, day) }

// key is the key of one record. requestID makes it unique.
func key(accountID, day, timestamp, requestID string) store.Key {
	return store.In(Partition(accountID, day), timestamp, requestID)
}

// IsRecord reports whether a key is that of an audit record, of any account.
func IsRecord(k store.Key) bool { return strings.HasPrefix(k.PK, space.Partition("")) }
