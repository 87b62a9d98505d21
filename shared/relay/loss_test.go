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

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// counted is a service that counts how often it sees each request, and takes some time.
type counted struct {
	mu   sync.Mutex
	seen map[string]int
}

func (c *counted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Id")
	_, _ = io.Copy(io.Discard, r.Body)
	c.mu.Lock()
	c.seen[id]++
	n := len(c.seen)
	c.mu.Unlock()
	time.Sleep(time.Duration(n%40) * 20 * time.Millisecond)
	w.Header().Set("X-Id", id)
	w.WriteHeader(http.StatusNoContent) // an answer that is whole or not there
}

func (c *counted) of(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[id]
}

// TestNoRequestIsLostThatMayBeRepeated has gateways ask while relays are killed and drained in
// turns, and connections are cut, or forgotten with both ends left open. What may be sent again
// is answered, and what may not be reaches the service once at most.
func TestNoRequestIsLostThatMayBeRepeated(t *testing.T) {
	var repeated, unanswered int
	runs := simulations.Runs(3)
	if simulations.Racing {
		runs = 1 // most of it is TLS, and slow then
	}
	for seed := range runs {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			service := &counted{seen: map[string]int{}}
			inWorld(t, service, func(w *world) {
				again, without := w.disturb(service, uint64(seed))
				repeated, unanswered = repeated+again, unanswered+without
			})
		})
	}
	// Otherwise nothing was disturbed.
	if repeated == 0 || unanswered == 0 {
		t.Errorf("%d requests were repeated, and %d that may not be broke", repeated, unanswered)
	}
}

// disturb plays a run, and tells how many requests the service saw again, and how many of those
// that may not be repeated had no answer.
func (w *world) disturb(service *counted, seed uint64) (repeated, unanswered int) {
	random := rand.New(rand.NewPCG(seed, 1))
	w.net.random = rand.New(rand.NewPCG(seed, 2))
	relays := []*process{w.relay("relay-0:443"), w.relay("relay-1:443")}
	for range 2 {
		w.agent("", 3)
	}
	ctx, stop := context.WithCancel(w.Context())
	var work sync.WaitGroup
	var mu sync.Mutex
	for worker := range 8 {
		by := w.client("")
		method := http.MethodGet
		if worker >= 5 {
			method = http.MethodPost
		}
		work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("%s-%d-%d", method, worker, i)
				err := w.once(by, method, id)
				seen := service.of(id)
				mu.Lock()
				switch {
				case method == http.MethodGet && err != nil:
					w.Errorf("%s is lost: %v", id, err)
				case method == http.MethodGet && seen > 1:
					repeated++
				case method == http.MethodPost && seen > 1, method == http.MethodPost && err == nil && seen == 0:
					w.Errorf("%s was seen %d times, and is answered %v", id, seen, err)
				case method == http.MethodPost && err != nil:
					unanswered++
					if !errors.Is(err, tunnel.ErrBroken) && !unreachedOnce(err, seen) {
						w.Errorf("%s was seen %d times, and is answered %v", id, seen, err)
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
			// It dies; the balancer needs some time to see it.
			relays[i].die()
			time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
			relays[i].kill()
			relays[i] = w.relay(name)
		case turn%2 == 0:
			next := w.relay(name)
			relays[i].end(110 * time.Second)
			relays[i] = next
		case random.IntN(3) == 0:
			w.net.each(func(wire *wire) bool { return wire.idleFor(time.Second) }, (*wire).cut)
		case random.IntN(2) == 0:
			w.net.each(func(wire *wire) bool { return wire.from != "agent" && random.IntN(2) == 0 }, (*wire).cut)
		default:
			// Those of gateways and relays, and one of an agent's.
			one := true
			w.net.each(func(wire *wire) bool {
				if wire.from != "agent" {
					return true
				}
				was := one
				one = one && !strings.Contains(wire.to, "relay")
				return was && !one
			}, (*wire).forget)
		}
	}
	time.Sleep(time.Minute)
	stop()
	work.Wait()
	return repeated, unanswered
}

// unreachedOnce reports whether an error says that no service was reached, of a request that
// reached none.
func unreachedOnce(err error, seen int) bool {
	return seen == 0 && (errors.Is(err, tunnel.ErrNoAgent) || errors.Is(err, tunnel.ErrUnavailable))
}

// once sends a request with an id, and checks that the answer is to it.
func (w *world) once(by asks, method, id string) error {
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(id)
	}
	r := w.request(method, "/", body)
	r.Header = http.Header{"X-Id": {id}}
	if method == http.MethodPost {
		r.Header.Set("Idempotency-Key", id)
	}
	response, err := by.RoundTrip(r, account, "api", shop)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if got := response.Header.Get("X-Id"); got != id {
		return fmt.Errorf("it is answered %s, to %q", response.Status, got)
	}
	return nil
}
