package tunnel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// RelayOptions are what a Relay takes from outside. All but Changed and Gone are needed.
type RelayOptions struct {
	// Authorize says which tunnel a token is of.
	Authorize Authorizer
	// Services are what a tunnel leads to now.
	Services func(ctx context.Context, tunnelID string) ([]Service, error)
	// Changed is called when a tunnel's first connection is there, Gone when the last one
	// has ended; nil for nobody.
	Changed, Gone func(ctx context.Context, tunnelID string)
	Log           *slog.Logger
}

// Relay is where agents connect, and through which their services are asked. It is an
// http.Handler for ConnectPath, and safe for concurrent use.
type Relay struct {
	Links
	options   RelayOptions
	transport *http.Transport
	draining  chan struct{}
	drain     func() // closes draining, once
	taken     taken
}

var _ http.Handler = (*Relay)(nil)

// NewRelay makes a Relay that no agent is connected to.
func NewRelay(o RelayOptions) *Relay {
	rl := &Relay{options: o, transport: linkTransport(), draining: make(chan struct{})}
	rl.drain = sync.OnceFunc(func() { close(rl.draining) })
	return rl
}

// retryAfter is when an agent may ask again that was turned away, in seconds.
const retryAfter = "1"

// ServeHTTP takes an agent's connection. A token that is no tunnel's is answered 401, one
// connection more than maxLinks 429, a relay that drains 503. It returns when the connection has
// switched: what a server keeps for a request is more than an idle agent takes otherwise.
func (rl *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-rl.draining:
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "This relay ends. Connect again: another one is there.", http.StatusServiceUnavailable)
		return
	default:
	}
	scheme, token, _ := strings.Cut(strings.Join(r.Header.Values("Authorization"), ", "), " ") // two are one list, which is no token
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		unauthorized(w)
		return
	}
	tunnelID, err := rl.options.Authorize(r.Context(), token)
	switch {
	case err != nil:
		rl.options.Log.LogAttrs(r.Context(), slog.LevelError, "tunnel: a token can't be looked up", slog.Any("error", err))
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "The token can't be looked up now. Connect again in a moment.", http.StatusServiceUnavailable)
		return
	case tunnelID == "":
		unauthorized(w)
		return
	}
	if !rl.taken.enter(tunnelID) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, fmt.Sprintf("The tunnel has %d connections to this relay, which is the most. End some of its agents.", maxLinks), http.StatusTooManyRequests)
		return
	}
	conn, err := accept(w, r)
	if err != nil {
		rl.taken.leave(tunnelID)
		rl.options.Log.LogAttrs(r.Context(), slog.LevelInfo, "tunnel: an agent was not connected", slog.Any("error", err))
		return
	}
	ctx := context.WithoutCancel(r.Context()) // a connection that was taken over has no end of a request
	l, err := rl.begin(ctx, tunnelID, conn)
	if err != nil {
		rl.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: a connection has failed", slog.String("tunnel", tunnelID), slog.Any("error", err))
		rl.end(ctx, tunnelID, l)
		return
	}
	told := make(chan struct{})
	go func() { // whose stack is small
		l.closeWhenLeft(ctx)
		<-l.Done()
		<-told
		rl.end(ctx, tunnelID, l)
	}()
	// This may wait for the table. An agent that leaves meanwhile is heard all the same.
	if rl.options.Changed != nil {
		rl.options.Changed(ctx, tunnelID)
	}
	close(told)
}

// end is what follows a connection that was let in, whose link is nil when it had none yet.
func (rl *Relay) end(ctx context.Context, tunnelID string, l *Link) {
	defer rl.taken.leave(tunnelID)
	if l == nil {
		return
	}
	l.Close()
	if rl.remove(tunnelID, l) && rl.options.Gone != nil {
		rl.options.Gone(ctx, tunnelID)
	}
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "The token is no tunnel's, or it was rotated. Take the present one from the management API.", http.StatusUnauthorized)
}

// maxLinks is how many connections of one tunnel a relay takes: those of 16 agents with 4 each.
// All tunnels share the memory that they take, which is some 36 KB before a request comes, and
// the descriptors.
const maxLinks = 64

// taken counts the connections of each tunnel, those included that are being made. The zero
// value has none.
type taken struct {
	mu       sync.Mutex
	byTunnel map[string]int
}

// enter counts a connection; false for one too many.
func (t *taken) enter(tunnelID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byTunnel[tunnelID] >= maxLinks {
		return false
	}
	if t.byTunnel == nil {
		t.byTunnel = map[string]int{}
	}
	t.byTunnel[tunnelID]++
	return true
}

func (t *taken) leave(tunnelID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byTunnel[tunnelID]--; t.byTunnel[tunnelID] == 0 {
		delete(t.byTunnel, tunnelID)
	}
}

var errDraining = errors.New("tunnel: the relay ends")

// configureTimeout bounds what an agent is told before its first request.
const configureTimeout = 10 * time.Second

// begin has requests come over an agent's connection. The link is nil where it was not one of the
// tunnel's yet.
func (rl *Relay) begin(ctx context.Context, tunnelID string, conn net.Conn) (*Link, error) {
	starting, cancel := context.WithTimeout(ctx, configureTimeout)
	defer cancel()
	l, err := newLink(starting, rl.transport, conn)
	if err != nil {
		return nil, err
	}
	// First it hears of changes, then of what there is: none is missed.
	rl.add(tunnelID, l)
	select {
	case <-rl.draining:
		return l, errDraining // it came while Drain looked for those that are there
	default:
	}
	if err := rl.Configure(starting, tunnelID, l); err != nil {
		return l, err
	}
	rl.usableNow()
	return l, nil
}

// Configure tells the agents of a tunnel which services there are: of links, or of all
// that are connected when none are named.
func (rl *Relay) Configure(ctx context.Context, tunnelID string, links ...*Link) error {
	services, err := rl.options.Services(ctx, tunnelID)
	if err != nil {
		return err
	}
	if len(links) == 0 {
		links = rl.Of(tunnelID)
	}
	for _, l := range links {
		if err := l.Configure(ctx, services); err != nil {
			return err
		}
	}
	return nil
}

// Drain refuses agents from now on, has those that are connected connect elsewhere, and
// returns when nothing is under way any more or ctx has ended.
func (rl *Relay) Drain(ctx context.Context) {
	rl.drain()
	rl.Links.Drain(ctx)
}
