package relay_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestPeersAreVerifiedByInstallationName checks that copies of the relay verify each other by the name of the
// installation's relay. Their certificate does not contain their addresses.
func TestPeersAreVerifiedByInstallationName(t *testing.T) {
	names := make(chan string, 100)
	peer := httptest.NewUnstartedServer(http.NotFoundHandler())
	peer.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	peer.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			names <- hello.ServerName
			return nil, nil
		},
	}
	peer.StartTLS()
	defer peer.Close()

	p := functionstest.New(t).Parts
	p.Now, p.Random, p.IDs, p.Log = time.Now, rand.Reader, ids.NewSource(rand.Reader, time.Now),
		slog.New(slog.DiscardHandler)
	p.Config.Relay = "https://relay.example.com"
	token := createTunnel(t, p, "http://service.internal")
	relayServer := httptest.NewServer(relay.New(p, peer.URL)) // at this address, agents reach the relay
	defer relayServer.CloseClientConnections()
	relayURL, err := url.Parse(relayServer.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: relayURL, Token: func() (string, error) {
			return token, nil
		}, Log: p.Log}).Run(ctx, time.Millisecond)
	}()
	defer func() {
		stop()
		<-finished
	}()
	secondRelay := relay.New(p, "https://192.0.2.1:8443")
	for {
		attemptCtx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		r, err := http.NewRequestWithContext(attemptCtx, http.MethodGet, "http://stock/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := secondRelay.RoundTrip(r, "a-1", "stock",
			tunnel.Caller{Project: "shop", Environment: "production"}); err == nil {
			t.Fatal("RoundTrip() to an unknown relay = no error, want one")
		}
		cancel()
		select {
		case name := <-names:
			if name != "relay.example.com" {
				t.Errorf("verified name = %q, want relay.example.com", name)
			}
			return
		default: // the agent has not connected yet
		}
	}
}
