package listen

import (
	"cmp"
	"sync"

	"github.com/gatewright/gatewright/shared/socket"
)

// Budget limits the connections that all listeners of a process have at once, from all client addresses: each connection
// takes a file descriptor of the process. It also limits the memory of their large heads (heads.go). Make one with NewBudget.
// It is safe for concurrent use.
//
// Each listener keeps an eighth of the budget for itself, or less if there are more than four: they keep half of it at most.
// So a flood of one listener does not block the others, such as the management API, which an operator needs meanwhile.
type Budget struct {
	most int

	mu        sync.Mutex
	listeners []*counts
	heads     largeHeads
	refused   int // connections that were refused and are read to their end
}

// NewBudget returns a Budget of this number of connections. 0 means as many as the process has file descriptors for.
func NewBudget(connections int) *Budget {
	return &Budget{most: cmp.Or(connections, connectionsOf(socket.Descriptors()))}
}

// join adds a listener.
func (b *Budget) join(c *counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners = append(b.listeners, c)
}

// hasRoom reports whether a listener may have another connection. The caller holds mu.
func (b *Budget) hasRoom(c *counts) bool {
	share := b.most / max(8, 2*len(b.listeners))
	taken := 0
	for _, other := range b.listeners {
		taken += other.all
		if other != c {
			taken += max(0, share-other.all)
		}
	}
	return taken < b.most
}

// maxRefused returns how many refused connections may wait at once until their clients have read the refusal, over all
// listeners of the process. Each takes a descriptor beyond the limit of connections. Others are closed at once, and a client
// that is still sending may then miss the refusal.
func (b *Budget) maxRefused() int {
	return min(64, max(1, b.most/32))
}

const (
	// maxDefaultConnections bounds the default where descriptors are plenty: if all
	// were idle they would take 0.4 GB.
	maxDefaultConnections = 65_536
	// reservedDescriptors is the number of descriptors for the process itself: 500 tables of the store, its log, objects,
	// backups, listeners, logs and the children of builds. A store that cannot open a table ends the process.
	reservedDescriptors = 640
)

// connectionsOf returns how many connections of clients a process with this number of descriptors has by default. A request
// takes a second descriptor for its upstream, so it is half of the descriptors that are not reserved. If there are few
// descriptors, it is a quarter of all: the store rarely has all of its tables open.
func connectionsOf(descriptors uint64) int {
	quarter := descriptors / 4
	return int(min(max((max(descriptors, reservedDescriptors)-reservedDescriptors)/2, quarter, 1), maxDefaultConnections)) //nolint:gosec // G115: bounded above
}
