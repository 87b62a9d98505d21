package relay_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// alone starts the only relay of an installation at a:80, without TLS, and gives what ends it as SIGKILL does.
func (w *world) alone() (rl *relay.Relay, kill func()) {
	w.Helper()
	rl = relay.New(relay.Options{
		Directory: w.directory, Table: storetest.Over(w.T, w.items, storetest.Clock(time.Now)), Key: rootKey(1), Now: time.Now,
		Random: storetest.Random(&named{w.T, time.Now().String()}), Log: w.log,
	})
	server := &http.Server{Handler: rl}
	l := w.net.listen("a:80")
	go func() { _ = server.Serve(l) }()
	kill = func() {
		_ = server.Close()
		w.net.each(func(wire *wire) bool { return wire.to == "a:80" }, (*wire).cut)
	}
	w.Cleanup(kill)
	return rl, kill
}

// TestRelayThatBeginsWaitsForAgents of the one before, where no row tells of them.
func TestRelayThatBeginsWaitsForAgents(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }), func(w *world) {
		first, kill := w.alone()
		w.plainAgent("a:80")
		if text, err := w.get(first, "/"); text != "text" || err != nil {
			w.Fatalf("%q, %v", text, err)
		}
		time.Sleep(time.Minute)
		kill()
		synctest.Wait()
		second, _ := w.alone()
		if text, err := w.get(second, "/"); text != "text" || err != nil {
			w.Errorf("the next relay answers %q, %v", text, err)
		}
	})
}

// TestAgentThatLeavesIsNotWaitedFor while it finishes what is under way, which may take an hour.
func TestAgentThatLeavesIsNotWaitedFor(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), func(w *world) {
		rl, _ := w.alone()
		stop := w.plainAgent("a:80")
		time.Sleep(time.Minute)
		answered := make(chan error, 1)
		go func() {
			_, err := w.get(rl, "/")
			answered <- err
		}()
		synctest.Wait()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			stop()
		}()
		synctest.Wait()
		began := time.Now()
		if _, err := w.get(rl, "/"); !errors.Is(err, tunnel.ErrNoAgent) || !time.Now().Equal(began) {
			w.Errorf("another request is answered %v after %v", err, time.Since(began))
		}
		<-answered
		<-ended
	})
}
