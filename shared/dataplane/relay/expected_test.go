package relay_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// singleRelay starts the only relay of an installation at a:80, without TLS. kill ends the relay like SIGKILL.
func (fx *fixture) singleRelay() (rl *relay.Relay, kill func()) {
	fx.Helper()
	rl = relay.New(relay.Options{
		Directory: fx.directory, Table: storetest.NewWithBackend(fx.T, fx.backend, storetest.Clock(time.Now)),
		Key:    rootKey(1),
		Now:    time.Now,
		Random: storetest.Random(&named{fx.T, time.Now().String()}), Log: fx.log,
	})
	server := &http.Server{Handler: rl}
	l := fx.net.listen("a:80")
	go func() { _ = server.Serve(l) }()
	kill = func() {
		_ = server.Close()
		fx.net.forEach(func(wire *wire) bool { return wire.to == "a:80" }, (*wire).cut)
	}
	fx.Cleanup(kill)
	return rl, kill
}

// TestNewRelayWaitsForAgents checks that a relay without rows waits after its start for the agents of the previous
// relay.
func TestNewRelayWaitsForAgents(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "text")
	}), func(fx *fixture) {
		first, kill := fx.singleRelay()
		fx.plainAgent("a:80")
		if text, err := fx.get(first, "/"); text != "text" || err != nil {
			fx.Fatalf("GET / at the first relay = %q, %v, want text", text, err)
		}
		time.Sleep(time.Minute)
		kill()
		synctest.Wait()
		second, _ := fx.singleRelay()
		if text, err := fx.get(second, "/"); text != "text" || err != nil {
			fx.Errorf("GET / at the second relay = %q, %v, want text", text, err)
		}
	})
}

// TestDrainingAgentIsNotAwaited checks that a request does not wait for
// an agent that finishes its requests in flight, which can take an hour.
func TestDrainingAgentIsNotAwaited(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}), func(fx *fixture) {
		rl, _ := fx.singleRelay()
		stop := fx.plainAgent("a:80")
		time.Sleep(time.Minute)
		result := make(chan error, 1)
		go func() {
			_, err := fx.get(rl, "/")
			result <- err
		}()
		synctest.Wait()
		done := make(chan struct{})
		go func() {
			defer close(done)
			stop()
		}()
		synctest.Wait()
		start := time.Now()
		if _, err := fx.get(rl, "/"); !errors.Is(err, tunnel.ErrNoAgent) || !time.Now().Equal(start) {
			fx.Errorf("GET / while the only agent drains: error = %v after %v, want %v at once",
				err, time.Since(start), tunnel.ErrNoAgent)
		}
		<-result
		<-done
	})
}
