package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// pollInterval is the time between two rounds of a request that waits for an agent. A round checks whether another
// relay has an agent.
const pollInterval = 250 * time.Millisecond

// brokenRetryDelay is how long a request waits after its connection broke, before it tries another connection of the
// same tunnel. The cause often breaks all connections of the tunnel, and the relay detects that only after a moment.
const brokenRetryDelay = 20 * time.Millisecond

// forwarder is a request that is forwarded through a relay to a service.
type forwarder struct {
	*attempts
	relay  *Relay
	ref    string
	claims claims
}

// forward sends a request to the service of a tunnel, within ctx. It tries this relay's own connections
// first, and then the relays that hold the tunnel, one after the other. A request from another relay is
// not forwarded again and does not wait for an agent, because the other relay retries and waits.
func (rl *Relay) forward(ctx context.Context, r *http.Request, ref string, c claims) (*http.Response, error) {
	f := &forwarder{attempts: newAttempts(r), relay: rl, ref: ref, claims: c}
	if c.SingleAttempt {
		f.maxSent = 1
	}
	if c.Forwarded {
		response, err := f.sendLocal(ctx)
		return f.finish(response, err)
	}
	return f.finish(f.run(ctx))
}

// run repeats rounds until the request has a response, until a round fails and another round is not likely to
// succeed, or until waitRetry returns an error.
func (f *forwarder) run(ctx context.Context) (*http.Response, error) {
	for {
		changed := f.relay.agents.NextUsable()
		response, retry, err := f.round(ctx)
		if !retry {
			return response, err
		}
		if err := f.waitRetry(ctx, pollInterval, changed, err); err != nil {
			return nil, err
		}
	}
}

// round tries the connections of this relay and then each other relay that holds the tunnel. If err is not nil, retry
// reports whether another round may succeed soon.
func (f *forwarder) round(ctx context.Context) (response *http.Response, retry bool, err error) {
	for {
		response, err = f.sendLocal(ctx)
		if !f.shouldRetry(err) {
			return response, false, err
		}
		if !errors.Is(err, tunnel.ErrBroken) {
			break
		}
		if err := f.waitRetry(ctx, brokenRetryDelay, nil, err); err != nil {
			return nil, false, err
		}
	}
	holders, recentlyHeld, lookupErr := f.relay.leases.otherHolders(ctx, f.ref)
	switch {
	case ctx.Err() != nil:
		return nil, false, context.Cause(ctx)
	case lookupErr != nil:
		f.relay.options.Log.LogAttrs(ctx, slog.LevelError, "relay: who has a tunnel can't be looked up",
			slog.Any("error", lookupErr))
		return nil, false, fmt.Errorf("%w: who has the tunnel can't be looked up", tunnel.ErrUnavailable)
	}
	f.relay.unreachable.sortLast(holders, f.relay.options.Now())
	for _, holder := range holders {
		response, relayErr := f.sendVia(ctx, holder)
		if !f.shouldRetry(relayErr) {
			return response, false, relayErr
		}
		// Prefer the error of an unavailable relay or of busy agents to the error of a relay without an agent.
		if errors.Is(err, tunnel.ErrNoAgent) && !errors.Is(err, tunnel.ErrBusy) {
			err = relayErr
		}
	}
	agentExpected := !errors.Is(err, tunnel.ErrBusy) && f.relay.leases.expectsAgent(f.ref)
	return nil, agentExpected || recentlyHeld || f.brokenErr != nil, err
}

// sendLocal sends the request over a connection of this relay.
func (f *forwarder) sendLocal(ctx context.Context) (*http.Response, error) {
	f.relay.configureAgents(ctx, f.ref)
	attempt := f.r.WithContext(ctx)
	attempt.Header = f.r.Header.Clone()
	if attempt.Header == nil {
		attempt.Header = http.Header{}
	}
	delete(attempt.Header, fieldPass)
	attempt.Body = f.body.next()
	return f.relay.agents.RoundTrip(attempt, f.ref, f.claims.Service, f.claims.caller())
}

// sendVia sends the request through another relay. holder is the row of that relay.
func (f *forwarder) sendVia(ctx context.Context, holder row) (*http.Response, error) {
	relayURL, err := url.Parse(holder.Address)
	if err != nil || relayURL.Host == "" {
		return nil, fmt.Errorf("%w: %q is no address of a relay", tunnel.ErrUnavailable, holder.Address)
	}
	c := f.claims
	c.Forwarded = true
	response, err := f.relay.relayClient.send(f.r, f.body, relayURL, c)
	if ctx.Err() != nil {
		return response, err
	}
	reached := !errors.Is(err, tunnel.ErrUnavailable)
	if f.relay.unreachable.record(holder.Address, reached, f.relay.options.Now()) || errors.Is(err, tunnel.ErrBroken) {
		f.relay.options.Log.LogAttrs(ctx, slog.LevelWarn, "relay: another relay did not answer",
			slog.String("relay", holder.Address), slog.Any("error", err))
	}
	return response, err
}
