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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestConnectionsOfATunnelAreBounded opens as many as there may be, and expects one more to be
// refused, one of another tunnel to be taken, and one again when one has ended.
func TestConnectionsOfATunnelAreBounded(t *testing.T) {
	const most = 64
	w := newWorld(t, http.HandlerFunc(echo))
	w.server.Config.Handler = tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: func(_ context.Context, token string) (string, error) { return token, nil },
		Services:  func(context.Context, string) ([]tunnel.Service, error) { return nil, nil },
		Log:       w.log,
	})
	first, _ := w.connect("one")
	for i := 1; i < most; i++ {
		if _, status := w.connect("one"); status != http.StatusSwitchingProtocols {
			t.Fatalf("connection %d is answered %d", i+1, status)
		}
	}
	if _, status := w.connect("one"); status != http.StatusTooManyRequests {
		t.Errorf("one connection too many is answered %d", status)
	}
	if _, status := w.connect("two"); status != http.StatusSwitchingProtocols {
		t.Errorf("another tunnel's is answered %d", status)
	}
	_ = first.Close()
	for range 200 {
		conn, status := w.connect("one")
		if status == http.StatusSwitchingProtocols {
			return
		}
		_ = conn.Close()
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("the place of a connection that has ended is not given to another")
}

// connect asks the relay for a connection, and gives it with the status of the answer.
func (w *world) connect(token string) (net.Conn, int) {
	w.t.Helper()
	conn, err := (&tls.Dialer{Config: w.options().TLS}).DialContext(w.t.Context(), "tcp", w.server.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", tunnel.ConnectPath, token, tunnel.Protocol)
	if err != nil {
		w.t.Fatal(err)
	}
	r := bufio.NewReaderSize(conn, 1) // nothing behind the head is read ahead
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	_ = response.Body.Close()
	return &ahead{conn, r}, response.StatusCode
}

// TestConnectionThatComesAsTheRelayDrains is let in before, and there when nobody looks any more.
func TestConnectionThatComesAsTheRelayDrains(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	var relay *tunnel.Relay
	relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: func(ctx context.Context, token string) (string, error) {
			relay.Drain(ctx)
			return token, nil
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) { return nil, nil },
		Log:      w.log,
	})
	w.server.Config.Handler = relay
	conn, status := w.connect("one")
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("it is answered %d", status)
	}
	stays := make(chan struct{}, 1)
	ended := w.answer(conn, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/leaving" {
			stays <- struct{}{}
			<-r.Context().Done()
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	select {
	case <-ended:
	case <-stays:
		t.Error("the agent stays")
	}
}

// TestLargestConfigurationIsTold: as many bytes as package tunnels lets into one, of those that
// JSON for pages spells longest.
func TestLargestConfigurationIsTold(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	for i := range 99 {
		s := tunnel.Service{Name: fmt.Sprintf("service-%d", i), Endpoint: "http://127.0.0.1/" + strings.Repeat("&", 2048-len("http://127.0.0.1/"))}
		for range 10 {
			s.Access = append(s.Access, tunnel.Access{Project: strings.Repeat("p", 63), Environments: []string{"working-copy", "preview", "production"}})
		}
		w.services = append(w.services, s)
	}
	w.run(w.options())
	response, err := w.ask(http.MethodGet, "/", nil)
	_ = text(t, response, err)
}

// TestBusyIsToldApartFromAbsent fills all connections of an agent. Each has one stream by which the
// agent says that it leaves.
func TestBusyIsToldApartFromAbsent(t *testing.T) {
	const room = 2 * (tunnel.MaxStreams - 1)
	release := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/late" {
			<-release
		}
	}))
	end := w.run(w.options()).end
	w.until(func() bool {
		links := w.relay.Of(tunnelID)
		return len(links) == 2 && links[0].Usable() && links[1].Usable()
	})
	outcomes := make(chan error)
	one := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.service/late", nil)
		if err != nil {
			return err
		}
		response, err := w.relay.RoundTrip(r, tunnelID, "api", shop)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	for range room + 5 {
		go func() { outcomes <- one() }()
	}
	for range 5 {
		if err := <-outcomes; !errors.Is(err, tunnel.ErrBusy) || !errors.Is(err, tunnel.ErrNoAgent) {
			t.Errorf("what finds no room is answered %v", err)
		}
	}
	close(release)
	for range room {
		if err := <-outcomes; err != nil {
			t.Errorf("what has found room is answered %v", err)
		}
	}
	_ = end()
	w.until(func() bool { return len(w.relay.Of(tunnelID)) == 0 })
	if err := one(); errors.Is(err, tunnel.ErrBusy) || !errors.Is(err, tunnel.ErrNoAgent) {
		t.Errorf("without an agent it is answered %v", err)
	}
}

// TestConnectionThatTakesNothingIsNotBusy: one whose agent does not know its services yet, and one that drains. Another
// agent would be of use there, and that one carries too much is not so.
func TestConnectionThatTakesNothingIsNotBusy(t *testing.T) {
	for _, drains := range []bool{false, true} {
		w := newWorld(t, http.HandlerFunc(echo))
		release, under := make(chan struct{}), make(chan struct{})
		asked := make(chan struct{}, 1)
		w.pose(token, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/leaving":
				<-r.Context().Done()
			case r.URL.Path == "/services" && !drains:
				asked <- struct{}{}
				<-release
			case r.URL.Path == "/drain":
				asked <- struct{}{}
				w.WriteHeader(http.StatusNoContent)
			case r.URL.Path == "/late":
				close(under)
				<-release
			default:
				w.WriteHeader(http.StatusNoContent)
			}
		}))
		ended := make(chan struct{}, 2)
		if drains {
			go func() {
				response, err := w.ask(http.MethodGet, "/late", nil)
				_ = text(t, response, err)
				ended <- struct{}{}
			}()
			<-under
			go func() {
				w.relay.DrainOf(t.Context(), tunnelID)
				ended <- struct{}{}
			}()
		}
		<-asked
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api.service/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.relay.RoundTrip(r, tunnelID, "api", shop); errors.Is(err, tunnel.ErrBusy) || !errors.Is(err, tunnel.ErrNoAgent) {
			t.Errorf("with an agent that takes nothing, draining %t, it is answered %v", drains, err)
		}
		close(release)
		if drains {
			<-ended
			<-ended
		}
	}
}
