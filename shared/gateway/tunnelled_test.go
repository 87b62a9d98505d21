package gateway_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// reach gives the address by which a route reaches a server, and what a house needs for it.
type reach func(serverURL string) (base string, set setting)

// overBothWays runs a test over both ways to an upstream: the network, and a tunnel with an
// agent at its end.
func overBothWays(t *testing.T, test func(t *testing.T, to reach)) {
	t.Helper()
	t.Run("by the network", func(t *testing.T) {
		test(t, func(serverURL string) (string, setting) {
			return serverURL, func(*gateway.Config, *upstream.Options) {}
		})
	})
	t.Run("by a tunnel", func(t *testing.T) {
		test(t, func(serverURL string) (string, setting) { return "service://Stock", tunnelTo(t, serverURL) })
	})
}

// tunnelTo starts a relay and an agent whose service Stock is the server at a URL.
func tunnelTo(t *testing.T, serverURL string) setting {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	relay := tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: func(context.Context, string) (string, error) { return "a1/t1", nil },
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			return []tunnel.Service{{Name: "Stock", Endpoint: serverURL, Access: []tunnel.Access{{Project: "shop", Environments: []string{"production"}}}}}, nil
		},
		Log: log,
	})
	server := httptest.NewServer(relay)
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: at, Token: func() (string, error) { return "token", nil }, Log: log}).Run(ctx, time.Millisecond)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return func(_ *gateway.Config, o *upstream.Options) { o.Services = tunnelled{relay} }
}

// tunnelled are the services behind a relay's one tunnel.
type tunnelled struct{ relay *tunnel.Relay }

// RoundTrip implements upstream.Services. It waits for the agent, which comes sooner or later.
func (s tunnelled) RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error) {
	for {
		response, err := s.relay.RoundTrip(r, accountID+"/t1", service, c)
		if !errors.Is(err, tunnel.ErrNoAgent) || r.Context().Err() != nil {
			return response, err
		}
		time.Sleep(time.Millisecond)
	}
}
