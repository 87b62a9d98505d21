package tunnel

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
)

// Links are a relay's connections to agents, by their tunnels. The zero value has none.
// It is safe for concurrent use.
type Links struct {
	mu       sync.RWMutex
	byTunnel map[string][]*Link
	// news is closed when a link can be used that could not be before; nil before anybody
	// has waited for it.
	news chan struct{}
}

// usableNow tells those who wait that there is a link more.
func (ls *Links) usableNow() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.news != nil {
		close(ls.news)
		ls.news = nil
	}
}

// News is closed when there is a link more that takes requests, of whichever tunnel.
func (ls *Links) News() <-chan struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.news == nil {
		ls.news = make(chan struct{})
	}
	return ls.news
}

// add takes a link in, until it ends.
func (ls *Links) add(tunnelID string, l *Link) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.byTunnel == nil {
		ls.byTunnel = map[string][]*Link{}
	}
	ls.byTunnel[tunnelID] = append(ls.byTunnel[tunnelID], l)
}

// remove takes a link out and reports whether it was its tunnel's last one.
func (ls *Links) remove(tunnelID string, l *Link) (last bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	left := slices.DeleteFunc(slices.Clone(ls.byTunnel[tunnelID]), func(other *Link) bool { return other == l })
	if len(left) == 0 {
		delete(ls.byTunnel, tunnelID)
		return true
	}
	ls.byTunnel[tunnelID] = left
	return false
}

// Of returns the links of a tunnel. The slice is not to be changed.
func (ls *Links) Of(tunnelID string) []*Link {
	ls.mu.RLock()
	defer ls.mu.RUnlock()
	return ls.byTunnel[tunnelID]
}

// Leaving reports whether a connection of a tunnel is there that takes no more requests, because
// its agent leaves or this relay sends it away.
func (ls *Links) Leaving(tunnelID string) bool {
	return slices.ContainsFunc(ls.Of(tunnelID), (*Link).leaves)
}

// RoundTrip sends a request to a service over the link of its tunnel that has least
// under way, once. r's path and query are what is appended to the service's endpoint, and its
// header belongs to RoundTrip from then on. A response of status 101 has a body that is
// an io.ReadWriteCloser.
//
// The error is ErrNoAgent where no agent is connected, ErrBusy where none takes another request:
// then r's body has not been touched. It is an *Error for one that the agent answered, ErrBroken where
// the connection ended and the request may have been seen, and the cause of r's context where
// that ended first.
func (ls *Links) RoundTrip(r *http.Request, tunnelID, service string, c Caller) (*http.Response, error) {
	var full []*Link
	for {
		l := ls.pick(tunnelID, full)
		switch {
		case l == nil && slices.ContainsFunc(ls.Of(tunnelID), (*Link).usable):
			return nil, ErrBusy
		case l == nil:
			return nil, ErrNoAgent
		}
		response, err := l.roundTrip(r, service, c)
		if r.Context().Err() != nil && response == nil && l.wear() {
			go ls.replace(context.WithoutCancel(r.Context()), tunnelID, l)
		}
		if !errors.Is(err, errNotTaken) {
			return response, err
		}
		full = append(full, l)
	}
}

// Repeatable reports whether a request that may have been seen can be sent again: it has no
// body, switches no protocols, and its method is idempotent (RFC 9110, section 9.2.2). It is the one rule
// for all who carry requests through tunnels.
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

// pick gives the link that has least under way, nil for none but those that are full.
func (ls *Links) pick(tunnelID string, full []*Link) *Link {
	var best *Link
	least := 0
	for _, l := range ls.Of(tunnelID) {
		if slices.Contains(full, l) {
			continue
		}
		if n := l.inFlight(); n >= 0 && (best == nil || n < least) {
			best, least = l, n
		}
	}
	return best
}

// Drain has all agents connect elsewhere, and returns when nothing is under way any more
// or ctx has ended.
func (ls *Links) Drain(ctx context.Context) {
	ls.mu.RLock()
	var all []*Link
	for _, of := range ls.byTunnel {
		all = append(all, of...)
	}
	ls.mu.RUnlock()
	drainAll(ctx, all)
}

// DrainOf is Drain for the agents of one tunnel.
func (ls *Links) DrainOf(ctx context.Context, tunnelID string) { drainAll(ctx, ls.Of(tunnelID)) }

func drainAll(ctx context.Context, links []*Link) {
	var work sync.WaitGroup
	for _, l := range links {
		work.Go(func() {
			_ = l.Drain(ctx) // what does not drain in time is cut
			l.Close()
		})
	}
	work.Wait()
}
