package upgrade_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// traffic are clients that ask an installation at the same time, each again when it has been answered. What comes of it is
// counted by phases, such as that of an update.
type traffic struct {
	ctx     context.Context //nolint:containedctx // of its clients, for as long as it runs
	clients sync.WaitGroup
	names   []string
	stop    chan struct{}

	mu     sync.Mutex
	phase  string
	phases []*figures
}

// figures are those of a phase, of all clients.
type figures struct {
	phase            string
	requests, failed int
	longest          time.Duration // that a client waited from one good answer to the next one
	waited           string        // which client that was
	errs             []error       // the first few
}

// mostErrors is how many are told of a phase.
const mostErrors = 5

// client asks again and again, with a pause before each request.
type client struct {
	name  string
	pause time.Duration
	// slow says that its answers take their time by what it asks, so that it tells nothing of gaps.
	slow bool
	ask  func(ctx context.Context, n int) error
}

func newTraffic(ctx context.Context, phase string) *traffic {
	return &traffic{ctx: ctx, stop: make(chan struct{}), phase: phase}
}

// begin has another client ask, from now on until end.
func (t *traffic) begin(c client) {
	t.names = append(t.names, c.name)
	t.clients.Go(func() {
		answered := time.Now()
		for n := 0; ; n++ {
			select {
			case <-t.stop:
				return
			case <-time.After(c.pause):
			}
			phase := t.now()
			err := c.ask(t.ctx, n)
			t.count(phase, c, err, time.Since(answered))
			if err == nil {
				answered = time.Now()
			}
		}
	})
}

func (t *traffic) now() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

// count counts a request of a phase, whose client had its last good answer that long ago.
func (t *traffic) count(phase string, c client, err error, since time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.phases, func(f *figures) bool { return f.phase == phase })
	if i < 0 {
		i = len(t.phases)
		t.phases = append(t.phases, &figures{phase: phase})
	}
	f := t.phases[i]
	f.requests++
	if since > f.longest && !c.slow {
		f.longest, f.waited = since, c.name
	}
	if err == nil {
		return
	}
	if f.failed++; f.failed <= mostErrors {
		f.errs = append(f.errs, fmt.Errorf("%s, %s, at %s: %w", phase, c.name, time.Now().Format(time.TimeOnly), err))
	}
}

// during counts for another phase what is asked from now on, and not what waits for its answer.
func (t *traffic) during(phase string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = phase
}

// end waits for the last answers, and gives a line of figures for each phase. Its error tells what failed.
func (t *traffic) end() (told string, err error) {
	close(t.stop)
	t.clients.Wait()
	lines := []string{fmt.Sprintf("%d clients: %s", len(t.names), strings.Join(t.names, ", "))}
	var errs []error
	requests, failed := 0, 0
	for _, f := range t.phases {
		lines = append(lines, fmt.Sprintf("%s: %d requests, %d failed, at most %.2f s from one answer of a client to the next (%s)",
			f.phase, f.requests, f.failed, f.longest.Seconds(), f.waited))
		errs = append(errs, f.errs...)
		requests, failed = requests+f.requests, failed+f.failed
	}
	return strings.Join(append(lines, fmt.Sprintf("in all: %d requests, %d failed", requests, failed)), "\n"), errors.Join(errs...)
}

// failedIn is how many requests failed in a phase.
func (t *traffic) failedIn(phase string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range t.phases {
		if f.phase == phase {
			return f.failed
		}
	}
	return 0
}

// answered is the error of a request that is answered with another status, or otherwise, nil for none.
func answered(status, want int, body, text string, err error) error {
	if err == nil && (status != want || text != "" && body != text) {
		err = fmt.Errorf("it is answered with %d %s, and not with %d", status, cmp.Or(strings.TrimSpace(body), "and nothing"), want)
	}
	return err
}
