package tunnel

// What tests of this package see of its inside.
const (
	MostLeft   = mostLeft
	MaxStreams = maxStreams
)

// Variables, since planted defects change what they are.
var (
	PingEvery   = pingEvery
	PingTimeout = pingTimeout
	Settled     = settled
)

// Tunnels is how many tunnels have an entry, of connections that are there or not.
func (ls *Links) Tunnels() int {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return len(ls.byTunnel)
}

// Usable reports whether requests go by the link.
func (l *Link) Usable() bool { return l.usable() }
