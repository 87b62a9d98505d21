package operationtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// start has a worker do something in a goroutine of its own.
func (s *simulation) start(what string, f func(ctx context.Context, w *Worker)) {
	awake := slices.DeleteFunc(slices.Clone(s.workers), func(w *Worker) bool { return w.frozen > 0 })
	if len(awake) == 0 {
		return
	}
	w := awake[s.rng.IntN(len(awake))]
	life := runTimeout
	if !s.plan.undisturbed && s.disruptions > 0 && s.rng.IntN(3) == 0 {
		life = time.Duration(s.rng.Int64N(int64(time.Minute)))
	}
	s.begunActivities++
	ctx, cancel := context.WithTimeout(context.WithValue(w.ctx, activityKey{}, s.begunActivities), life)
	s.note(fmt.Sprintf("worker %d begins: %s", w.name, what))
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

func (s *simulation) act() {
	s.acted = true
	s.start("act", func(ctx context.Context, w *Worker) {
		err := s.scenario.Act(ctx, w)
		if w.isDead() {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.acknowledged = err == nil
		s.refused = fault.Is(err, fault.Throttled)
	})
}

func (s *simulation) deliver(r store.StreamRecord, how string) {
	s.delivered = append(s.delivered, r)
	if s.scenario.Stop != nil && s.scenario.Stop(Delivering) {
		return
	}
	s.start(strings.TrimSpace("stream record of "+r.Key.PK+" "+how), func(ctx context.Context, w *Worker) {
		if len(w.Engine.HandleStream(ctx, []store.StreamRecord{r})) > 0 && !w.isDead() {
			s.mu.Lock()
			s.undelivered = append(s.undelivered, r)
			s.mu.Unlock()
		}
	})
}

func (s *simulation) sweep() {
	if s.scenario.Stop != nil && s.scenario.Stop(Sweeping) {
		return
	}
	s.start("sweep", func(ctx context.Context, w *Worker) {
		_ = w.Engine.Sweep(ctx) // the next one tries again
	})
}
