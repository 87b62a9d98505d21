package tunnel

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
)

// Links has a relay's connections to agents, by tunnel. The zero value
// has no connections and is ready to use. It is safe for concurrent use.
type Links struct {
	mu       sync.RWMutex
	byTunnel map[string][]*Link
	// changed is closed when another link becomes usable. It is nil if no caller waits.
	changed chan struct{}
}

// notifyUsable notifies the waiting callers that another link is usable.
func (ls *Links) notifyUsable() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.changed != nil {
		close(ls.changed)
		ls.changed = nil
	}
}

// NextUsable returns a channel that is closed when another link of any tunnel becomes usable.
func (ls *Links) NextUsable() <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.changed == nil {
		ls.changed = make(chan struct{})
	}
	return ls.changed
}

// add adds a link.
func (ls *Links) add(tunnelID string, l *Link) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byTunnel == nil {
		ls.byTunnel = map[string][]*Link{}
	}
	ls.byTunnel[tunnelID] = append(ls.byTunnel[tunnelID], l)
}

// remove removes a link. It reports whether the link was the last one of its tunnel.
func (ls *Links) remove(tunnelID string, l *Link) (last bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	remaining := slices.DeleteFunc(slices.Clone(ls.byTunnel[tunnelID]), func(other *Link) bool { return other == l })
	if len(remaining) == 0 {
		delete(ls.byTunnel, tunnelID)
		return true
	}
	ls.byTunnel[tunnelID] = remaining
	return false
}

// ForTunnel returns the links of a tunnel. Callers must not change the slice.
func (ls *Links) ForTunnel(tunnelID string) []*Link {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return ls.byTunnel[tunnelID]
}

// HasDraining reports whether a tunnel has a connection that accepts no more requests
// because its agent shuts down, or because this relay drains the connection.
func (ls *Links) HasDraining(tunnelID string) bool {
	return slices.ContainsFunc(ls.ForTunnel(tunnelID), (*Link).isDraining)
}

// RoundTrip sends a request once to a service, over the link of its tunnel with the fewest
// requests in flight. It appends r's path and query to the service's endpoint. The caller must
// not use r's header afterwards. The body of a response with status 101 is an io.ReadWriteCloser.
//
// The error is ErrNoAgent if no agent has a usable connection, and ErrBusy if no usable connection accepts another
// request. In both cases, r's body is unread. The error is an *Error if the agent itself responded. It is ErrBroken if
// the connection ended and the request could have reached the service. If r's context ended first, the error is the
// context's cause.
func (ls *Links) RoundTrip(r *http.Request, tunnelID, service string, c Caller) (*http.Response, error) {
	var full []*Link
	for {
		l := ls.pick(tunnelID, full)
		switch {
		case l == nil && slices.ContainsFunc(ls.ForTunnel(tunnelID), (*Link).usable):
			return nil, ErrBusy
		case l == nil:
			return nil, ErrNoAgent
		}
		response, err := l.roundTrip(r, service, c)
		if r.Context().Err() != nil && response == nil && l.countDisconnect() {
			go ls.replace(context.WithoutCancel(r.Context()), tunnelID, l)
		}
		if !errors.Is(err, errNotAccepted) {
			return response, err
		}
		full = append(full, l)
	}
}

// Repeatable reports whether a request that could have reached the service can be sent again: it has no body, switches
// no protocols, and its method is idempotent (RFC 9110, section 9.2.2). All code that forwards requests through tunnels
// uses this rule.
func Repeatable(r *http.Request) bool {
	if r.Body != nil && r.Body != http.NoBody || r.Header.Get("Upgrade") != "" {
		return false
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// pick returns the link with the fewest requests in flight that
// is not in full. It returns nil if no link accepts a request.
func (ls *Links) pick(tunnelID string, full []*Link) *Link {
	var best *Link
	fewest := 0
	for _, l := range ls.ForTunnel(tunnelID) {
		if slices.Contains(full, l) {
			continue
		}
		if n := l.inFlight(); n >= 0 && (best == nil || n < fewest) {
			best, fewest = l, n
		}
	}
	return best
}

// Drain makes all agents open other connections. It waits until no request is in flight on the present connections, or
// until ctx ends, and closes them.
func (ls *Links) Drain(ctx context.Context) {
	ls.mu.RLock()
	var all []*Link
	for _, links := range ls.byTunnel {
		all = append(all, links...)
	}
	ls.mu.RUnlock()
	drainAll(ctx, all)
}

// DrainTunnel is like Drain, for the agents of one tunnel.
func (ls *Links) DrainTunnel(ctx context.Context, tunnelID string) {
	drainAll(ctx, ls.ForTunnel(tunnelID))
}

func drainAll(ctx context.Context, links []*Link) {
	var wg sync.WaitGroup
	for _, l := range links {
		wg.Go(func() {
			_ = l.Drain(ctx) // requests that do not end in time are aborted
			l.Close()
		})
	}
	wg.Wait()
}
