package listen

import (
	"cmp"
	"sync"

	"github.com/gatewright/gatewright/shared/base/socket"
)

// Budget limits the number of concurrent connections of all listeners of a process:
// each connection takes a file descriptor of the process. It also limits the memory of
// large heads (heads.go). Create one with NewBudget. It is safe for concurrent use.
//
// Each listener reserves an eighth of the connections for itself. If there are more than four listeners,
// each reserves less, so that together they reserve at most half. So a flood of connections to one listener
// does not block the others, such as the management API, which an operator needs during the flood.
type Budget struct {
	maxConnections int

	mu        sync.Mutex
	listeners []*counts
	heads     largeHeads
	refused   int // number of refused connections that wait until their clients have read the refusal
}

// NewBudget returns a Budget for this number of connections. 0 means
// a number that depends on the process's limit of file descriptors.
func NewBudget(connections int) *Budget {
	return &Budget{maxConnections: cmp.Or(connections, defaultConnections(socket.MaxDescriptors()))}
}

// addListener adds a listener.
func (b *Budget) addListener(c *counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, c)
}

// hasCapacity reports whether a listener is allowed another connection. The caller holds mu.
func (b *Budget) hasCapacity(c *counts) bool {
	share := b.maxConnections / max(8, 2*len(b.listeners))
	used := 0
	for _, other := range b.listeners {
		used += other.total
		if other != c {
			used += max(0, share-other.total)
		}
	}
	return used < b.maxConnections
}

// maxRefused returns how many refused connections can wait until their clients have read the refusal, over all
// listeners of the process. These connections do not count for the limit of connections, but each takes a descriptor.
// Further refused connections are closed immediately, and a client that is still sending may miss the refusal.
func (b *Budget) maxRefused() int {
	return min(64, max(1, b.maxConnections/32))
}

const (
	// maxDefaultConnections limits the default if there are many descriptors. As many idle connections take 0.4 GB of
	// memory.
	maxDefaultConnections = 65_536
	// reservedDescriptors is the number of descriptors for the process itself: 500 tables of the store, its log, objects,
	// backups, listeners, logs and the children of builds. A store that cannot open a table ends the process.
	reservedDescriptors = 640
)

// defaultConnections returns the default limit of client connections for a process with this number of descriptors:
// half of the descriptors that are not reserved, because a request takes a second descriptor for its upstream. If
// there are few descriptors, the default is a quarter of all descriptors: the store rarely has all of its tables open.
func defaultConnections(descriptors uint64) int {
	quarter := descriptors / 4
	return int(min(max((max(descriptors, reservedDescriptors)-reservedDescriptors)/2, quarter, 1), maxDefaultConnections)) //nolint:gosec // G115: bounded above
}
