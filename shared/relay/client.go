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
	asker   *asker
}

// NewClient makes a Client. It dials when it is first asked.
func NewClient(o ClientOptions) *Client {
	return &Client{options: o, asker: newAsker(newPasses(o.Key, o.Now), o.TLS, o.Dial, usual())}
}

const (
	// firstPause is how long the second attempt waits at most, twice as long each further one until it is
	// longestPause. Attempts end after patience: a load balancer leads to a relay that died for some
	// seconds, and every second time to one that did not.
	firstPause   = 20 * time.Millisecond
	longestPause = 250 * time.Millisecond
)

// RoundTrip is as that of a Relay.
func (cl *Client) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	t := triesOf(r)
	return t.done(cl.ask(t, accountID, service, c))
}

func (cl *Client) ask(t *tries, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	ctx := t.r.Context()
	if _, err := cl.options.Directory.Find(ctx, accountID, service, c); err != nil {
		return nil, unfound(ctx, err)
	}
	its := claims{AccountID: accountID, Service: service, Project: c.Project, Environment: c.Environment, Once: true}
	for limit := firstPause; ; limit = min(2*limit, longestPause) {
		response, err := cl.asker.ask(t.r, t.body, cl.options.Relay, its)
		if !t.again(err) || settled(err) {
			return response, err
		}
		// A random time, so that those whose relay died do not come to another all at once.
		pause := limit/4 + rand.N(limit*3/4) //nolint:gosec // no secret
		if err := t.wait(ctx, pause, nil, err); err != nil {
			return nil, err
		}
	}
}

// settled reports whether an error is of a relay that has done what can be done: it has waited for
// an agent.
func settled(err error) bool {
	_, relayed := errors.AsType[*relayedError](err)
	return relayed && errors.Is(err, tunnel.ErrNoAgent)
}

// Close closes connections that carry nothing.
func (cl *Client) Close() { cl.asker.close() }
