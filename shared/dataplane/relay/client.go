package relay

import (
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// ClientOptions are the settings and dependencies of a Client. All except TLS and Dial are required.
type ClientOptions struct {
	// Relay is the address of the relays, such as their load balancer: an absolute URL without a path.
	Relay     *url.URL
	Directory Directory
	// Key is the installation's root key, which signs passes.
	Key seal.KeySource
	Now func() time.Time
	// TLS has other trusted roots. nil means the system's roots.
	TLS *tls.Config
	// Dial opens TCP connections to relays; nil dials like net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Client calls relays for a gateway in another process, such as a Lambda. It is safe
// for concurrent use. Connections are kept and shared by all callers: with HTTP/2, a
// connection has several requests at once; with HTTP/1.1, one after the other.
type Client struct {
	options     ClientOptions
	relayClient *relayClient
}

// NewClient returns a Client. It dials on its first call.
func NewClient(o ClientOptions) *Client {
	return &Client{options: o, relayClient: newRelayClient(newPasses(o.Key, o.Now), o.TLS, o.Dial, defaultTimeouts())}
}

const (
	// initialBackoff is the maximum pause before the second attempt. The maximum doubles with each
	// further attempt up to maxBackoff. Attempts end after agentWait. A load balancer still uses a relay
	// for some seconds after the relay has died, but about every second attempt reaches another relay.
	initialBackoff = 20 * time.Millisecond
	maxBackoff     = 250 * time.Millisecond
)

// RoundTrip sends a request like Relay.RoundTrip, through a relay in another process.
func (cl *Client) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	t := newAttempts(r)
	return t.finish(cl.send(t, accountID, service, c))
}

// send looks up the service and repeats attempts until one has a response, or no further attempt is possible.
func (cl *Client) send(t *attempts, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	ctx := t.r.Context()
	if _, err := cl.options.Directory.Find(ctx, accountID, service, c); err != nil {
		return nil, lookupError(ctx, err)
	}
	requestClaims := claims{
		AccountID: accountID, Service: service, Project: c.Project, Environment: c.Environment,
		SingleAttempt: true,
	}
	for backoff := initialBackoff; ; backoff = min(2*backoff, maxBackoff) {
		response, err := cl.relayClient.send(t.r, t.body, cl.options.Relay, requestClaims)
		if !t.shouldRetry(err) || isFinal(err) {
			return response, err
		}
		// The pause is random, so that the clients of a dead relay do not all reach another relay at the same time.
		delay := backoff/4 + rand.N(backoff*3/4) //nolint:gosec // no secret
		if err := t.waitRetry(ctx, delay, nil, err); err != nil {
			return nil, err
		}
	}
}

// isFinal reports whether an error comes from a relay that has waited
// for an agent in vain. Another attempt would only wait again.
func isFinal(err error) bool {
	_, fromRelay := errors.AsType[*relayedError](err)
	return fromRelay && errors.Is(err, tunnel.ErrNoAgent)
}

// Close closes idle connections.
func (cl *Client) Close() { cl.relayClient.close() }
