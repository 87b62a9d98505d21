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

// RelayOptions are the dependencies of a Relay. All except OnConnect and OnDisconnect are required.
type RelayOptions struct {
	// Authenticate returns the ID of the tunnel that a token belongs to.
	Authenticate Authorizer
	// Services returns the current services of a tunnel.
	Services func(ctx context.Context, tunnelID string) ([]Service, error)
	// OnConnect is called for each connection of a tunnel that becomes usable,
	// OnDisconnect when the tunnel's last connection has ended. nil means no notification.
	OnConnect, OnDisconnect func(ctx context.Context, tunnelID string)
	Log                     *slog.Logger
}

// Relay accepts the connections of agents and sends requests for their services
// through them. It is an http.Handler for ConnectPath, and safe for concurrent use.
type Relay struct {
	Links
	options   RelayOptions
	transport *http.Transport
	draining  chan struct{}
	drain     func() // closes draining, once
	counts    connCounter
}

var _ http.Handler = (*Relay)(nil)

// NewRelay returns a Relay without connections.
func NewRelay(o RelayOptions) *Relay {
	rl := &Relay{options: o, transport: linkTransport(), draining: make(chan struct{})}
	rl.drain = sync.OnceFunc(func() { close(rl.draining) })
	return rl
}

// retryAfter is the number of seconds after which a refused agent can try again.
const retryAfter = "1"

// ServeHTTP accepts an agent's connection. It responds 401 to an invalid token, 429 if the tunnel already has maxLinks
// connections, 503 if the relay drains or the token cannot be looked up, and 426, 505 or a status of package websocket
// if the connection cannot switch protocols. It returns when the agent has its services and OnConnect has returned. If
// it waited for the end of the connection, the server's state of the request would take more memory than everything
// else that an idle agent needs.
func (rl *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	select {
	case <-rl.draining:
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, "This relay ends. Connect again: another one is there.", http.StatusServiceUnavailable)
		return
	default:
	}
	// Join several fields to a list. The list is not a valid token, so it is refused.
	scheme, token, _ := strings.Cut(strings.Join(r.Header.Values("Authorization"), ", "), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		unauthorized(w)
		return
	}
	tunnelID, err := rl.options.Authenticate(r.Context(), token)
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
	if !rl.counts.acquire(tunnelID) {
		w.Header().Set("Retry-After", retryAfter)
		http.Error(w, fmt.Sprintf("The tunnel has %d connections to this relay, which is the most. End some of its agents.",
			maxLinks), http.StatusTooManyRequests)
		return
	}
	conn, err := accept(w, r)
	if err != nil {
		rl.counts.release(tunnelID)
		rl.options.Log.LogAttrs(r.Context(), slog.LevelInfo, "tunnel: an agent was not connected", slog.Any("error", err))
		return
	}
	ctx := context.WithoutCancel(r.Context()) // a hijacked connection must not end with its request
	l, err := rl.setUp(ctx, tunnelID, conn)
	if err != nil {
		rl.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: a connection has failed", slog.String("tunnel", tunnelID),
			slog.Any("error", err))
		rl.cleanUp(ctx, tunnelID, l)
		return
	}
	notified := make(chan struct{})
	go func() { // a new goroutine, because its stack is small
		l.closeOnShutdown(ctx)
		<-l.Done()
		<-notified
		rl.cleanUp(ctx, tunnelID, l)
	}()
	// OnConnect can wait for the table. Meanwhile, the goroutine above notices an agent that shuts down.
	if rl.options.OnConnect != nil {
		rl.options.OnConnect(ctx, tunnelID)
	}
	close(notified)
}

// cleanUp closes and removes the link of an accepted connection, and
// stops counting the connection. l is nil if the link was not created.
func (rl *Relay) cleanUp(ctx context.Context, tunnelID string, l *Link) {
	defer rl.counts.release(tunnelID)
	if l == nil {
		return
	}
	l.Close()
	if rl.remove(tunnelID, l) && rl.options.OnDisconnect != nil {
		rl.options.OnDisconnect(ctx, tunnelID)
	}
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", "Bearer")
	http.Error(w, "The token is no tunnel's, or it was rotated. Take the present one from the management API.",
		http.StatusUnauthorized)
}

// maxLinks is the maximum number of connections of one tunnel to a relay: those of 16 agents with 4 connections each.
// All tunnels share the relay's memory and descriptors. A connection takes some 36 KB before its first request.
const maxLinks = 64

// connCounter counts the connections of each tunnel, including
// those that are being set up. The zero value is ready to use.
type connCounter struct {
	mu       sync.Mutex
	byTunnel map[string]int
}

// acquire counts a connection. It returns false if the tunnel already has maxLinks connections.
func (c *connCounter) acquire(tunnelID string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTunnel[tunnelID] >= maxLinks {
		return false
	}
	if c.byTunnel == nil {
		c.byTunnel = map[string]int{}
	}
	c.byTunnel[tunnelID]++
	return true
}

func (c *connCounter) release(tunnelID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byTunnel[tunnelID]--; c.byTunnel[tunnelID] == 0 {
		delete(c.byTunnel, tunnelID)
	}
}

var errDraining = errors.New("tunnel: the relay ends")

// configureTimeout is the maximum time to send an agent its configuration before its first request.
const configureTimeout = 10 * time.Second

// setUp creates the link of an agent's connection, adds it to the tunnel's links, and sends the
// services to the agent. If it fails, the link is nil if it was not added to the tunnel's links.
func (rl *Relay) setUp(ctx context.Context, tunnelID string, conn net.Conn) (*Link, error) {
	setupCtx, cancel := context.WithTimeout(ctx, configureTimeout)
	defer cancel()
	l, err := newLink(setupCtx, rl.transport, conn)
	if err != nil {
		return nil, err
	}
	// Add the link before reading the services, so that the link gets every later change.
	rl.add(tunnelID, l)
	select {
	case <-rl.draining:
		return l, errDraining // Drain could have missed the link
	default:
	}
	if err := rl.Configure(setupCtx, tunnelID, l); err != nil {
		return l, err
	}
	rl.notifyUsable()
	return l, nil
}

// Configure sends the services of a tunnel to its agents, over the
// given links. Without links, it uses all links of the tunnel.
func (rl *Relay) Configure(ctx context.Context, tunnelID string, links ...*Link) error {
	services, err := rl.options.Services(ctx, tunnelID)
	if err != nil {
		return err
	}
	if len(links) == 0 {
		links = rl.ForTunnel(tunnelID)
	}
	for _, l := range links {
		if err := l.Configure(ctx, services); err != nil {
			return err
		}
	}
	return nil
}

// Drain makes the relay refuse agents, and makes connected agents connect to another relay. It waits until no request
// is in flight, or until ctx ends, and closes all connections.
func (rl *Relay) Drain(ctx context.Context) {
	rl.drain()
	rl.Links.Drain(ctx)
}
