package relay_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// countingService is a slow service that counts how often it receives each request.
type countingService struct {
	mu       sync.Mutex
	received map[string]int
}

func (c *countingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Id")
	_, _ = io.Copy(io.Discard, r.Body)
	c.mu.Lock()
	c.received[id]++
	n := len(c.received)
	c.mu.Unlock()
	time.Sleep(time.Duration(n%40) * 20 * time.Millisecond)
	w.Header().Set("X-Id", id)
	w.WriteHeader(http.StatusNoContent) // a response without a body is either complete or missing
}

// count returns how often the service has received the request with this ID.
func (c *countingService) count(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received[id]
}

// TestNoRepeatableRequestIsLost sends requests while relays are killed and drained, and connections are cut or left
// half-open. Each repeatable request must get a response. Any other request must reach the service at most once.
func TestNoRepeatableRequestIsLost(t *testing.T) {
	var repeated, failed int
	runs := simulations.Runs(3)
	if simulations.RaceEnabled {
		runs = 1 // TLS is slow with the race detector
	}
	for seed := range runs {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			service := &countingService{received: map[string]int{}}
			withFixture(t, service, func(fx *fixture) {
				repeats, failures := fx.runWithFaults(service, uint64(seed))
				repeated, failed = repeated+repeats, failed+failures
			})
		})
	}
	// Check that the faults had an effect.
	if repeated == 0 || failed == 0 {
		t.Errorf("retried requests = %d, failed ones that can't be retried = %d, want at least 1 each", repeated, failed)
	}
}

// runWithFaults simulates a run. It returns how many requests the service has received
// more than once, and how many requests that can't be repeated got no response.
func (fx *fixture) runWithFaults(service *countingService, seed uint64) (repeated, failed int) {
	random := rand.New(rand.NewPCG(seed, 1))
	fx.net.random = rand.New(rand.NewPCG(seed, 2))
	relays := []*process{fx.relay("relay-0:443"), fx.relay("relay-1:443")}
	for range 2 {
		fx.agent("", 3)
	}
	ctx, stop := context.WithCancel(fx.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	for worker := range 8 {
		client := fx.client("")
		method := http.MethodGet
		if worker >= 5 {
			method = http.MethodPost
		}
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("%s-%d-%d", method, worker, i)
				err := fx.sendOnce(client, method, id)
				received := service.count(id)
				mu.Lock()
				switch {
				case method == http.MethodGet && err != nil:
					fx.Errorf("GET %s: error = %v, want none", id, err)
				case method == http.MethodGet && received > 1:
					repeated++
				case method == http.MethodPost && received > 1, method == http.MethodPost && err == nil && received == 0:
					fx.Errorf("POST %s: requests at the service = %d, error = %v, want at most 1, and 1 without an error",
						id, received, err)
				case method == http.MethodPost && err != nil:
					failed++
					if !errors.Is(err, tunnel.ErrBroken) && !isUnreachedError(err, received) {
						fx.Errorf("POST %s: requests at the service = %d, error = %v, want %v, or an error before the service",
							id, received, err, tunnel.ErrBroken)
					}
				}
				mu.Unlock()
				time.Sleep(time.Duration(200+50*worker) * time.Millisecond)
			}
		})
	}
	for turn := range 10 {
		time.Sleep(time.Duration(5000+random.IntN(20000)) * time.Millisecond)
		i := turn / 2 % 2
		name := fmt.Sprintf("relay-%d:443", turn+2)
		switch {
		case turn%2 == 0 && random.IntN(2) == 0:
			// The relay dies, and the load balancer removes it later.
			relays[i].crash()
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			relays[i].kill()
			relays[i] = fx.relay(name)
		case turn%2 == 0:
			next := fx.relay(name)
			relays[i].shutDown(110 * time.Second)
			relays[i] = next
		case random.IntN(3) == 0:
			fx.net.forEach(func(wire *wire) bool { return wire.idleFor(time.Second) }, (*wire).cut)
		case random.IntN(2) == 0:
			fx.net.forEach(func(wire *wire) bool { return wire.from != "agent" && random.IntN(2) == 0 }, (*wire).cut)
		default:
			// Connections of gateways and relays, and one connection of an agent.
			found := false
			fx.net.forEach(func(wire *wire) bool {
				if wire.from != "agent" {
					return true
				}
				isFirst := !found && strings.Contains(wire.to, "relay")
				found = found || isFirst
				return isFirst
			}, (*wire).dropBytes)
		}
	}
	time.Sleep(time.Minute)
	stop()
	wg.Wait()
	return repeated, failed
}

// isUnreachedError reports whether err says that no service was reached, and the service has not received the request.
func isUnreachedError(err error, received int) bool {
	return received == 0 && (errors.Is(err, tunnel.ErrNoAgent) || errors.Is(err, tunnel.ErrUnavailable))
}

// sendOnce sends a request with an ID, and checks that the response belongs to it.
func (fx *fixture) sendOnce(client roundTripper, method, id string) error {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(id)
	}
	r := fx.request(method, "/", body)
	r.Header = http.Header{"X-Id": {id}}
	if method == http.MethodPost {
		r.Header.Set("Idempotency-Key", id)
	}
	response, err := client.RoundTrip(r, account, "api", shop)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if got := response.Header.Get("X-Id"); got != id {
		return fmt.Errorf("the response %s is to the request %q, want %q", response.Status, got, id)
	}
	return nil
}
