package operationtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// start begins an activity: it calls f with a random worker in a new goroutine. In some disturbed
// runs, f's context ends within a minute. start does nothing if all workers are frozen.
func (s *simulation) start(name string, f func(ctx context.Context, w *Worker)) {
	awake := slices.DeleteFunc(slices.Clone(s.workers), func(w *Worker) bool { return w.frozen > 0 })
	if len(awake) == 0 {
		return
	}
	w := awake[s.rng.IntN(len(awake))]
	lifetime := runTimeout
	if !s.plan.undisturbed && s.disruptions > 0 && s.rng.IntN(3) == 0 {
		lifetime = time.Duration(s.rng.Int64N(int64(time.Minute)))
	}
	s.activityCount++
	ctx, cancel := context.WithTimeout(context.WithValue(w.ctx, activityKey{}, s.activityCount), lifetime)
	s.logEvent(fmt.Sprintf("worker %d begins: %s", w.name, name))
	s.mu.Lock()
	s.active++
	s.mu.Unlock()
	go func() {
		defer func() {
			cancel()
			s.mu.Lock()
			s.active--
			s.mu.Unlock()
		}()
		f(ctx, w)
	}()
}

// runRequest begins Scenario.Request, and records whether it succeeds or is refused without an effect.
func (s *simulation) runRequest() {
	s.requested = true
	s.start("request", func(ctx context.Context, w *Worker) {
		err := s.scenario.Request(ctx, w)
		if w.isDead() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acknowledged = err == nil
		s.refused = fault.Is(err, fault.Throttled)
	})
}

// deliver lets a worker handle a stream record. If the worker returns the record as failed, it becomes undelivered
// again. suffix is the end of the event in the trace.
func (s *simulation) deliver(r store.StreamRecord, suffix string) {
	s.delivered = append(s.delivered, r)
	if s.scenario.Suppress != nil && s.scenario.Suppress(Delivering) {
		return
	}
	s.start(strings.TrimSpace("stream record of "+r.Key.PK+" "+suffix), func(ctx context.Context, w *Worker) {
		if len(w.Engine.HandleStream(ctx, []store.StreamRecord{r})) > 0 && !w.isDead() {
			s.mu.Lock()
			s.undelivered = append(s.undelivered, r)
			s.mu.Unlock()
		}
	})
}

// sweep begins a sweep of a worker.
func (s *simulation) sweep() {
	if s.scenario.Suppress != nil && s.scenario.Suppress(Sweeping) {
		return
	}
	s.start("sweep", func(ctx context.Context, w *Worker) {
		_ = w.Engine.Sweep(ctx) // the next sweep tries again
	})
}
