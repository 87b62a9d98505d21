package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// poll is how often a request that waits for an agent looks whether another relay has it.
const poll = 250 * time.Millisecond

// breath is how long a request whose connection broke waits before it goes by another one of the
// same tunnel. What breaks one often breaks all, and each takes a moment to notice.
const breath = 20 * time.Millisecond

// trip is a request on its way through a relay to a service.
type trip struct {
	*tries
	relay  *Relay
	ref    string
	claims claims
}

// carry sends a request, whose context ctx is, to the service of a tunnel: over connections of
// this relay's own, and otherwise through the relays that hold the tunnel, one after the other.
// A request that was passed on goes no further, and waits for nobody: who passed it on does.
func (rl *Relay) carry(ctx context.Context, r *http.Request, ref string, c claims) (*http.Response, error) {
	t := &trip{tries: triesOf(r), relay: rl, ref: ref, claims: c}
	if c.Once {
		t.most = 1
	}
	if c.Passed {
		response, err := t.own(ctx)
		return t.done(response, err)
	}
	return t.done(t.run(ctx))
}

// run tries until the request is answered, or nothing is left to try and no agent is to be
// expected.
func (t *trip) run(ctx context.Context) (*http.Response, error) {
	for {
		news := t.relay.agents.News()
		response, expected, err := t.round(ctx)
		if !expected {
			return response, err
		}
		if err := t.wait(ctx, poll, news, err); err != nil {
			return nil, err
		}
	}
}

// round tries all that there is, once. expected says that there may be more in a moment: another
// round may do what this one did not.
func (t *trip) round(ctx context.Context) (response *http.Response, expected bool, err error) {
	for {
		response, err = t.own(ctx)
		if !t.again(err) {
			return response, false, err
		}
		if !errors.Is(err, tunnel.ErrBroken) {
			break
		}
		if err := t.wait(ctx, breath, nil, err); err != nil {
			return nil, false, err
		}
	}
	held, recent, failed := t.relay.leases.others(ctx, t.ref)
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case failed != nil:
		t.relay.options.Log.LogAttrs(ctx, slog.LevelError, "relay: who has a tunnel can't be looked up", slog.Any("error", failed))
		return nil, false, fmt.Errorf("%w: who has the tunnel can't be looked up", tunnel.ErrUnavailable)
	}
	t.relay.down.last(held, t.relay.options.Now())
	for _, w := range held {
		response, of := t.through(ctx, w)
		if !t.again(of) {
			return response, false, of
		}
		// That a relay can't be asked, or that agents are busy, tells more than that another has none.
		if errors.Is(err, tunnel.ErrNoAgent) && !errors.Is(err, tunnel.ErrBusy) {
			err = of
		}
	}
	comes := !errors.Is(err, tunnel.ErrBusy) && t.relay.leases.expects(t.ref)
	return nil, comes || recent || t.broke != nil, err
}

// own sends the request over a connection of this relay.
func (t *trip) own(ctx context.Context) (*http.Response, error) {
	t.relay.tell(ctx, t.ref)
	attempt := t.r.WithContext(ctx)
	attempt.Header = t.r.Header.Clone()
	if attempt.Header == nil {
		attempt.Header = http.Header{}
	}
	delete(attempt.Header, fieldPass)
	attempt.Body = t.body.next()
	return t.relay.agents.RoundTrip(attempt, t.ref, t.claims.Service, t.claims.caller())
}

// through sends the request through the relay of a row.
func (t *trip) through(ctx context.Context, w row) (*http.Response, error) {
	at, err := url.Parse(w.Address)
	if err != nil || at.Host == "" {
		return nil, fmt.Errorf("%w: %q is no address of a relay", tunnel.ErrUnavailable, w.Address)
	}
	c := t.claims
	c.Passed = true
	response, err := t.relay.asker.ask(t.r, t.body, at, c)
	if ctx.Err() != nil {
		return response, err
	}
	asked := !errors.Is(err, tunnel.ErrUnavailable)
	if t.relay.down.note(w.Address, asked, t.relay.options.Now()) || errors.Is(err, tunnel.ErrBroken) {
		t.relay.options.Log.LogAttrs(ctx, slog.LevelWarn, "relay: another relay did not answer", slog.String("relay", w.Address), slog.Any("error", err))
	}
	return response, err
}
