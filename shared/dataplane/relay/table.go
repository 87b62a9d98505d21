package relay

import (
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// holderPrefix is the key prefix of rows, which record the relays that hold a tunnel. Each tunnel
// is a partition, with one row for each process of a relay. A relay without a connection of a
// tunnel reads all rows of the tunnel, which are few. Only a relay's own process writes its row.
const holderPrefix store.KeyPrefix = "tunnel-relay"

func holderPartition(ref string) string { return holderPrefix.Partition(ref) }

func holderKey(ref, relayID string) store.Key { return store.KeyIn(holderPartition(ref), relayID) }

// row records that a relay holds a tunnel, or has just released it.
type row struct {
	store.UnknownAttributes

	// ID identifies the relay's process: another process at the same address has another ID.
	ID      string `dynamodbav:"id"`
	Address string `dynamodbav:"address"`
	// ExpiresAt is when the row becomes invalid unless it is renewed.
	ExpiresAt time.Time `dynamodbav:"until"`
	// Released is set if the relay no longer holds the tunnel: its agents may be about to connect to another relay.
	Released bool `dynamodbav:"left"`
	// Version rises with each write of the process, so that a delayed write does not replace a later row.
	Version int64 `dynamodbav:"version"`
	TTL     int64 `dynamodbav:"ttl"`
}

// put returns the write of a row.
func (r row) put(ref string) store.Write {
	// The database deletes the row some time after it has expired by every clock.
	r.TTL = r.ExpiresAt.Add(2*MaxClockSkew + time.Second).Unix()
	return store.Put(holderKey(ref, r.ID), r).If(store.Or(store.Absent(), store.Less(store.At("version"), r.Version)))
}
