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
	// maxAttempts is how often relays are asked at most for a request that did not get through to one,
	// or may be repeated: a load balancer leads to one that died for some seconds.
	maxAttempts = 6
	// firstPause is how long the second attempt waits at most, twice as long each further one.
	firstPause = 50 * time.Millisecond
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
	its := claims{AccountID: accountID, Service: service, Project: c.Project, Environment: c.Environment}
	for attempt := 1; ; attempt++ {
		response, err := cl.asker.ask(t.r, t.body, cl.options.Relay, its)
		// A relay has waited for an agent already.
		if !t.again(err) || attempt == maxAttempts || errors.Is(err, tunnel.ErrNoAgent) {
			return response, err
		}
		if err := pause(ctx, attempt); err != nil {
			return nil, err
		}
	}
}

// Close closes connections that carry nothing.
func (cl *Client) Close() { cl.asker.close() }

// pause waits before an attempt after the first: a random time, so that those whose relay
// died do not come to another all at once.
func pause(ctx context.Context, attempt int) error {
	limit := firstPause << (attempt - 1)
	timer := time.NewTimer(limit/4 + rand.N(limit*3/4)) //nolint:gosec // no secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
