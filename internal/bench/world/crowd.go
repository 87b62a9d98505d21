package world

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/gatewright/gatewright/internal/bench/load"
)

// Crowd is clients that have sent one request each and keep their connections.
type Crowd struct {
	load load.Load
	all  []net.Conn
}

// NewCrowd returns a crowd without clients, each of which will send l's request.
func NewCrowd(l load.Load) *Crowd { return &Crowd{load: l} }

// Close ends the connections.
func (c *Crowd) Close() {
	for _, one := range c.all {
		_ = one.Close()
	}
}

// Add connects n more clients, which send one request each.
func (c *Crowd) Add(ctx context.Context, n int) error {
	for range n {
		one, err := new(net.Dialer).DialContext(ctx, "tcp", c.load.Address)
		if err != nil {
			return fmt.Errorf("connect client %d: %w", len(c.all), err)
		}
		if c.load.TLS != nil {
			one = tls.Client(one, c.load.TLS)
		}
		c.all = append(c.all, one)
		if err := c.Ask(ctx, len(c.all)-1, 1); err != nil {
			return fmt.Errorf("client %d: %w", len(c.all), err)
		}
	}
	return nil
}

// Ask has a client send more requests, one after the other.
func (c *Crowd) Ask(ctx context.Context, client, requests int) error {
	if requests == 0 {
		return nil
	}
	l := c.load
	l.Requests, l.Connections, l.TLS = requests, 1, nil // its connection speaks TLS already
	l.Dial = func(context.Context, int) (net.Conn, error) { return kept{c.all[client]}, nil }
	_, err := l.Send(ctx)
	return err
}

// kept is a connection that stays open when its load ends.
type kept struct{ net.Conn }

// Close does nothing.
func (kept) Close() error { return nil }
