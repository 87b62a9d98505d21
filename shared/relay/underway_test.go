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

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestEndIsThatOfTheLastUnderWay: who waits does so for all of them, and for no longer than asked to.
func TestEndIsThatOfTheLastUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var under relay.UnderWay
		under.Wait(t.Context())
		first, second := under.Begin(), under.Begin()
		waited := make(chan struct{})
		go func() {
			defer close(waited)
			under.Wait(t.Context())
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		under.Wait(ctx)
		first()
		synctest.Wait()
		select {
		case <-waited:
			t.Error("one is under way yet")
		default:
		}
		under.Begin()()
		second()
		<-waited
	})
}

// TestAgentsGoByWhatTheyKnow while nobody can look up their services.
func TestAgentsGoByWhatTheyKnow(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "text") }), func(w *world) {
		_, _, by := ways(w)
		w.directory.mu.Lock()
		w.directory.untold = errors.New("the table is down")
		w.directory.mu.Unlock()
		for range 2 {
			for way, by := range by {
				if text, err := w.get(by, "/"); text != "text" || err != nil {
					w.Errorf("%s answers %q, %v", way, text, err)
				}
			}
			time.Sleep(2 * relay.RenewEvery)
		}
	})
}

// TestRelayWithoutAnAddressWritesNothing, whatever table it is given: no other reaches it.
func TestRelayWithoutAnAddressWritesNothing(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(w *world) {
		alone := relay.New(relay.Options{
			Directory: w.directory, Table: storetest.Over(w.T, w.items, storetest.Clock(time.Now)), Key: rootKey(1), Now: time.Now,
			Random: storetest.Random(w.T), Log: w.log,
		})
		server := &http.Server{Handler: alone}
		l := w.net.listen("a:80")
		go func() { _ = server.Serve(l) }()
		defer func() { _ = server.Close() }()
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			alone.Run(ctx)
		}()
		end := w.plainAgent("a:80")
		if _, err := w.get(alone, "/"); err != nil {
			w.Error(err)
		}
		time.Sleep(3 * relay.RenewEvery)
		end()
		time.Sleep(3 * relay.RenewEvery)
		stop()
		<-ended
		for key := range w.items.Items() {
			if strings.HasPrefix(key.PK, "tunnel-relay") {
				w.Errorf("it writes %s", key.PK)
			}
		}
	})
}
