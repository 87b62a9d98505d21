package tunnel

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"
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

// reconnection is how long a request whose connection broke waits for another one: an
// agent dials again within a second.
const reconnection = 5 * time.Second

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

// RoundTrip sends a request to a service over the link of its tunnel that has least
// under way. r's path and query are what is appended to the service's endpoint, and its
// header belongs to RoundTrip from then on. A response of status 101 has a body that is
// an io.ReadWriteCloser.
//
// The error is ErrNoAgent where no agent is connected, an *Error for one that the agent
// answered, ErrBroken where the connection ended and the request may have been seen, the
// cause of r's context where that ended first. A request whose connection died is sent again on another one
// where that is safe: when it never left, or when it has no body and its method may
// be repeated (RFC 9110, section 9.2.2).
func (ls *Links) RoundTrip(r *http.Request, tunnelID, service string, c Caller) (*http.Response, error) {
	return ls.roundTrip(r, tunnelID, service, c, reconnection)
}

// RoundTripNow is RoundTrip over the links that are there: where they broke, it waits for no
// other. Who has other relays to ask, asks those first. A body that is ErrNoAgent's has not been
// touched.
func (ls *Links) RoundTripNow(r *http.Request, tunnelID, service string, c Caller) (*http.Response, error) {
	return ls.roundTrip(r, tunnelID, service, c, 0)
}

func (ls *Links) roundTrip(r *http.Request, tunnelID, service string, c Caller, patience time.Duration) (*http.Response, error) {
	var tried []*Link
	var broke error // of an attempt that may be made again
	repeatable := Repeatable(r)
	header := r.Header
	for {
		l, err := ls.next(r.Context(), tunnelID, tried, broke, patience)
		if err != nil {
			return nil, err
		}
		tried = append(tried, l)
		attempt := r.WithContext(r.Context())
		attempt.Header = header.Clone()
		response, err := l.roundTrip(attempt, service, c)
		if r.Context().Err() != nil && response == nil && l.wear() {
			go ls.replace(context.WithoutCancel(r.Context()), tunnelID, l)
		}
		switch {
		case errors.Is(err, errNotTaken):
		case errors.Is(err, ErrBroken) && repeatable && r.Context().Err() == nil:
			broke = err
		default:
			return response, err
		}
	}
}

// next gives the link to try next. A request that has broken waits for one; what never
// left need not, since nobody has promised that an agent is there.
func (ls *Links) next(ctx context.Context, tunnelID string, tried []*Link, broke error, patience time.Duration) (*Link, error) {
	var over <-chan time.Time
	for {
		news := ls.News()
		l := ls.pick(tunnelID, tried)
		switch {
		case l != nil:
			return l, nil
		case broke == nil:
			return nil, ErrNoAgent
		case patience == 0:
			return nil, broke
		case over == nil:
			timer := time.NewTimer(patience)
			defer timer.Stop()
			over = timer.C
		}
		select {
		case <-news:
		case <-over:
			return nil, broke
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
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

// pick gives the link that has least under way, nil for none.
func (ls *Links) pick(tunnelID string, tried []*Link) *Link {
	var best *Link
	least := 0
	for _, l := range ls.Of(tunnelID) {
		if slices.Contains(tried, l) {
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
