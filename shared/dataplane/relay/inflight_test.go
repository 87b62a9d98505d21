package relay_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/relay"
)

// TestWaitEndsWithTheLastRequest checks that wait returns when no request is in flight, or when its context has ended.
func TestWaitEndsWithTheLastRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var inFlight relay.InFlight
		inFlight.Wait(t.Context())
		first, second := inFlight.Begin(), inFlight.Begin()
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			inFlight.Wait(t.Context())
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		inFlight.Wait(ctx)
		first()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("Wait() returned with a request in flight, want it to wait")
		default:
		}
		inFlight.Begin()()
		second()
		<-waited
	})
}

// TestAgentsKeepServicesDuringOutage checks that agents keep their services while the lookup of services fails.
func TestAgentsKeepServicesDuringOutage(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "text")
	}), func(fx *fixture) {
		_, _, clients := newCallers(fx)
		fx.directory.mu.Lock()
		fx.directory.servicesErr = errors.New("the table is down")
		fx.directory.mu.Unlock()
		for range 2 {
			for caller, client := range clients {
				if text, err := fx.get(client, "/"); text != "text" || err != nil {
					fx.Errorf("GET / by %s during the outage = %q, %v, want text", caller, text, err)
				}
			}
			time.Sleep(2 * relay.RenewInterval)
		}
	})
}

// TestRelayWithoutAddressWritesNoRows checks that a relay without an address
// writes no rows, even if it has a table. No other relay can reach it.
func TestRelayWithoutAddressWritesNoRows(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(fx *fixture) {
		rl := relay.New(relay.Options{
			Directory: fx.directory, Table: storetest.NewWithBackend(fx.T, fx.backend, storetest.Clock(time.Now)),
			Key:    rootKey(1),
			Now:    time.Now,
			Random: storetest.Random(fx.T), Log: fx.log,
		})
		server := &http.Server{Handler: rl}
		l := fx.net.listen("a:80")
		go func() { _ = server.Serve(l) }()
		defer func() { _ = server.Close() }()
		ctx, stop := context.WithCancel(fx.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			rl.Run(ctx)
		}()
		end := fx.plainAgent("a:80")
		if _, err := fx.get(rl, "/"); err != nil {
			fx.Errorf("GET / at a relay without an address: error = %v, want none", err)
		}
		time.Sleep(3 * relay.RenewInterval)
		end()
		time.Sleep(3 * relay.RenewInterval)
		stop()
		<-done
		for key := range fx.backend.Items() {
			if strings.HasPrefix(key.PK, "tunnel-relay") {
				fx.Errorf("relay without an address wrote the row %s, want none", key.PK)
			}
		}
	})
}
