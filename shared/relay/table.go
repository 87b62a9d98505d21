package relay

import (
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// holderSpace has which relays hold a tunnel (row). Those of a tunnel are a partition, one row
// for each process of a relay: a relay that is asked for a tunnel of which it has no connection
// reads them all, which are few. Nobody but its process writes a row.
const holderSpace store.Space = "tunnel-relay"

func holderPartition(ref string) string { return holderSpace.Partition(ref) }

func holderKey(ref, relayID string) store.Key { return store.In(holderPartition(ref), relayID) }

// row says that a relay holds a tunnel, or did until a moment ago.
type row struct {
	store.Rest

	// ID is the relay's process: another one at the same address has another.
	ID      string `dynamodbav:"id"`
	Address string `dynamodbav:"address"`
	// Until is when the row means nothing any more unless it was renewed.
	Until time.Time `dynamodbav:"until"`
	// Left says that the relay holds the tunnel no more: its agents may be about to connect to
	// another.
	Left bool `dynamodbav:"left"`
	// Version rises with each write of the process: one that comes late changes nothing.
	Version int64 `dynamodbav:"version"`
	TTL     int64 `dynamodbav:"ttl"`
}

// put is the write of a row.
func (w row) put(ref string) store.Write {
	// The database deletes it some time after nobody reads it any more, by whichever clock.
	w.TTL = w.Until.Add(2*ClockDifference + time.Second).Unix()
	return store.Put(holderKey(ref, w.ID), w).If(store.Or(store.Absent(), store.Less(store.At("version"), w.Version)))
}
