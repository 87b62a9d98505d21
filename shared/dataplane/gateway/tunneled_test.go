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

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// connector returns the base URL with which a route reaches a server, and the setting that a fixture needs for it.
type connector func(serverURL string) (base string, upstreamSetting setting)

// runDirectAndTunneled runs a test twice: with an upstream on the network, and with an upstream behind a tunnel.
func runDirectAndTunneled(t *testing.T, test func(t *testing.T, connect connector)) {
	t.Helper()
	t.Run("over the network", func(t *testing.T) {
		test(t, func(serverURL string) (string, setting) {
			return serverURL, func(*gateway.Config, *upstream.Options) {}
		})
	})
	t.Run("through a tunnel", func(t *testing.T) {
		test(t, func(serverURL string) (string, setting) { return "service://Stock", tunnelTo(t, serverURL) })
	})
}

// tunnelTo starts a relay and an agent. The server at serverURL is the agent's service Stock.
func tunnelTo(t *testing.T, serverURL string) setting {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	relay := tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: func(context.Context, string) (string, error) { return "a1/t1", nil },
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			return []tunnel.Service{{
				Name: "Stock", Endpoint: serverURL,
				Access: []tunnel.Access{{Project: "shop", Environments: []string{"production"}}},
			}}, nil
		},
		Log: log,
	})
	server := httptest.NewServer(relay)
	t.Cleanup(server.Close)
	target, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: target, Token: func() (string, error) {
			return "token", nil
		}, Log: log}).Run(ctx, time.Millisecond)
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return func(_ *gateway.Config, o *upstream.Options) { o.Services = tunneledServices{relay} }
}

// tunneledServices implements upstream.Services with a relay that has one tunnel.
type tunneledServices struct{ relay *tunnel.Relay }

// RoundTrip implements upstream.Services. It waits for the agent.
func (s tunneledServices) RoundTrip(
	r *http.Request, accountID, service string, c tunnel.Caller,
) (*http.Response, error) {
	for {
		response, err := s.relay.RoundTrip(r, accountID+"/t1", service, c)
		if !errors.Is(err, tunnel.ErrNoAgent) || r.Context().Err() != nil {
			return response, err
		}
		time.Sleep(time.Millisecond)
	}
}
