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
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestCopiesAreKnownByTheInstallationsName: they are asked at addresses that no certificate has.
func TestCopiesAreKnownByTheInstallationsName(t *testing.T) {
	names := make(chan string, 100)
	copied := httptest.NewUnstartedServer(http.NotFoundHandler())
	copied.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	copied.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		names <- hello.ServerName
		return nil, nil
	}}
	copied.StartTLS()
	defer copied.Close()

	p := functionstest.New(t).Parts
	p.Now, p.Random, p.IDs, p.Log = time.Now, rand.Reader, ids.NewSource(rand.Reader, time.Now), slog.New(slog.DiscardHandler)
	p.Config.Relay = "https://relay.example.com"
	token := office(t, p, "http://service.internal")
	holder := httptest.NewServer(relay.New(p, copied.URL)) // agents reach it otherwise
	defer holder.CloseClientConnections()
	at, err := url.Parse(holder.URL)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tunnel.NewAgent(tunnel.AgentOptions{Relay: at, Token: func() (string, error) { return token, nil }, Log: p.Log}).Run(ctx, time.Millisecond)
	}()
	defer func() {
		stop()
		<-ended
	}()
	other := relay.New(p, "https://192.0.2.1:8443")
	for {
		asked, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		r, err := http.NewRequestWithContext(asked, http.MethodGet, "http://stock/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := other.RoundTrip(r, "a-1", "stock", tunnel.Caller{Project: "shop", Environment: "production"}); err == nil {
			t.Fatal("a stranger is taken for a relay")
		}
		cancel()
		select {
		case name := <-names:
			if name != "relay.example.com" {
				t.Errorf("a copy is expected to be %q", name)
			}
			return
		default: // the agent is about to connect
		}
	}
}
