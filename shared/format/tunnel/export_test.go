package tunnel

// Internals for tests of this package.
const (
	MaxDisconnects = maxDisconnects
	MaxStreams     = maxStreams
)

// These are variables, since planted defects change the constants.
var (
	PingInterval  = pingInterval
	PingTimeout   = pingTimeout
	MinStableTime = minStableTime
)

// Tunnels returns the number of tunnels with an entry, including those whose connections have ended.
func (ls *Links) Tunnels() int {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return len(ls.byTunnel)
}

// Usable reports whether the link serves requests.
func (l *Link) Usable() bool { return l.usable() }
