package tunnel_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestConnectionsPerTunnelAreLimited opens the maximum number of connections of a tunnel. A further
// connection must be refused until one of them has ended. A connection of another tunnel must be accepted.
func TestConnectionsPerTunnelAreLimited(t *testing.T) {
	const maxConns = 64
	fx := newFixture(t, http.HandlerFunc(echo))
	fx.server.Config.Handler = tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: func(_ context.Context, token string) (string, error) { return token, nil },
		Services:     func(context.Context, string) ([]tunnel.Service, error) { return nil, nil },
		Log:          fx.log,
	})
	first, _ := fx.connect("one")
	for i := 1; i < maxConns; i++ {
		if _, status := fx.connect("one"); status != http.StatusSwitchingProtocols {
			t.Fatalf("connection %d: status = %d, want 101", i+1, status)
		}
	}
	if _, status := fx.connect("one"); status != http.StatusTooManyRequests {
		t.Errorf("connection %d: status = %d, want 429", maxConns+1, status)
	}
	if _, status := fx.connect("two"); status != http.StatusSwitchingProtocols {
		t.Errorf("connection of another tunnel: status = %d, want 101", status)
	}
	_ = first.Close()
	for range 200 {
		conn, status := fx.connect("one")
		if status == http.StatusSwitchingProtocols {
			return
		}
		_ = conn.Close()
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("new connection after another one ended is refused, want 101")
}

// connect requests a connection from the relay, and returns it with the status of the response.
func (fx *fixture) connect(token string) (net.Conn, int) {
	fx.t.Helper()
	conn, err := (&tls.Dialer{Config: fx.options().TLS}).DialContext(fx.t.Context(), "tcp",
		fx.server.Listener.Addr().String())
	if err != nil {
		fx.t.Fatal(err)
	}
	fx.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: "+
		"Upgrade\r\nUpgrade: %s\r\n\r\n", tunnel.ConnectPath, token, tunnel.Protocol)
	if err != nil {
		fx.t.Fatal(err)
	}
	r := bufio.NewReaderSize(conn, 1) // read nothing after the head
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		fx.t.Fatal(err)
	}
	_ = response.Body.Close()
	return &bufferedConn{conn, r}, response.StatusCode
}

// TestConnectionDuringDrainIsClosed checks a connection that is accepted
// before Drain, but is usable only after Drain has listed the connections.
func TestConnectionDuringDrainIsClosed(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	var relay *tunnel.Relay
	relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: func(ctx context.Context, token string) (string, error) {
			relay.Drain(ctx)
			return token, nil
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) { return nil, nil },
		Log:      fx.log,
	})
	fx.server.Config.Handler = relay
	conn, status := fx.connect("one")
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("connection: status = %d, want 101", status)
	}
	remainsOpen := make(chan struct{}, 1) // the relay waits for the agent's shutdown, so it keeps the connection
	done := fx.serve(conn, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leaving" {
			remainsOpen <- struct{}{}
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	select {
	case <-done:
	case <-remainsOpen:
		t.Error("connection of the agent remains open, want it closed")
	}
}

// TestLargestConfigurationIsSent sends the largest configuration that
// package tunnels allows, with characters that are longer in HTML-safe JSON.
func TestLargestConfigurationIsSent(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	for i := range 99 {
		s := tunnel.Service{
			Name:     fmt.Sprintf("service-%d", i),
			Endpoint: "http://127.0.0.1/" + strings.Repeat("&", 2048-len("http://127.0.0.1/")),
		}
		for range 10 {
			s.Access = append(s.Access, tunnel.Access{
				Project:      strings.Repeat("p", 63),
				Environments: []string{"working-copy", "preview", "production"},
			})
		}
		fx.services = append(fx.services, s)
	}
	fx.run(fx.options())
	response, err := fx.do(http.MethodGet, "/", nil)
	_ = readBody(t, response, err)
}

// TestBusyDiffersFromNoAgent fills all connections of an agent. Each
// connection reserves one stream, on which the agent announces its shutdown.
func TestBusyDiffersFromNoAgent(t *testing.T) {
	const capacity = 2 * (tunnel.MaxStreams - 1)
	release := make(chan struct{})
	fx := newFixture(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/late" {
			<-release
		}
	}))
	end := fx.run(fx.options()).stopAndWait
	fx.waitFor(func() bool {
		links := fx.relay.ForTunnel(tunnelID)
		return len(links) == 2 && links[0].Usable() && links[1].Usable()
	})
	outcomes := make(chan error)
	send := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.service/late", nil)
		if err != nil {
			return err
		}
		response, err := fx.relay.RoundTrip(r, tunnelID, "api", shop)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	for range capacity + 5 {
		go func() { outcomes <- send() }()
	}
	for range 5 {
		if err := <-outcomes; !errors.Is(err, tunnel.ErrBusy) || !errors.Is(err, tunnel.ErrNoAgent) {
			t.Errorf("RoundTrip() without capacity error = %v, want %v", err, tunnel.ErrBusy)
		}
	}
	close(release)
	for range capacity {
		if err := <-outcomes; err != nil {
			t.Errorf("RoundTrip() within the capacity error = %v, want none", err)
		}
	}
	_ = end()
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 0 })
	if err := send(); errors.Is(err, tunnel.ErrBusy) || !errors.Is(err, tunnel.ErrNoAgent) {
		t.Errorf("RoundTrip() without an agent error = %v, want %v and not %v", err, tunnel.ErrNoAgent, tunnel.ErrBusy)
	}
}

// TestRetiredConnectionIsNotBusy checks a connection whose agent does not have its services
// yet, and a connection that drains. For both, the error must be ErrNoAgent and not ErrBusy.
func TestRetiredConnectionIsNotBusy(t *testing.T) {
	for _, drains := range []bool{false, true} {
		fx := newFixture(t, http.HandlerFunc(echo))
		release, started := make(chan struct{}), make(chan struct{})
		requested := make(chan struct{}, 1)
		fx.connectAs(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/leaving":
				<-r.Context().Done()
			case r.URL.Path == "/services" && !drains:
				requested <- struct{}{}
				<-release
			case r.URL.Path == "/drain":
				requested <- struct{}{}
				w.WriteHeader(http.StatusNoContent)
			case r.URL.Path == "/late":
				close(started)
				<-release
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}))
		done := make(chan struct{}, 2)
		if drains {
			go func() {
				response, err := fx.do(http.MethodGet, "/late", nil)
				_ = readBody(t, response, err)
				done <- struct{}{}
			}()
			<-started
			go func() {
				fx.relay.DrainTunnel(t.Context(), tunnelID)
				done <- struct{}{}
			}()
		}
		<-requested
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.service/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fx.relay.RoundTrip(r, tunnelID, "api", shop); errors.Is(err, tunnel.ErrBusy) ||
			!errors.Is(err, tunnel.ErrNoAgent) {
			t.Errorf("RoundTrip() to an agent that refuses requests (draining %t) error = %v, want %v and not %v",
				drains, err, tunnel.ErrNoAgent, tunnel.ErrBusy)
		}
		close(release)
		if drains {
			<-done
			<-done
		}
	}
}
