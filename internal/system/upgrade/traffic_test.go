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

// traffic is a set of clients that send requests to an installation at the same time. Each client sends its next
// request when it has received a response. The results are counted by phase, such as the phase of an update.
type traffic struct {
	ctx     context.Context //nolint:containedctx // the context of its clients, for as long as they run
	clients sync.WaitGroup
	names   []string
	stop    chan struct{}

	mu     sync.Mutex
	phase  string
	phases []*phaseStats
}

// phaseStats are the results of all clients in one phase.
type phaseStats struct {
	phase            string
	requests, failed int
	longest          time.Duration // the longest time between two expected responses of a client
	slowestClient    string        // the client with the longest time
	errs             []error       // the first maxErrors
}

// maxErrors is the maximum number of errors that are reported for a phase.
const maxErrors = 5

// client sends requests in a loop, with a pause before each.
type client struct {
	name     string
	interval time.Duration
	// slow means that the responses take long by design, so that gaps between them do not count.
	slow    bool
	request func(ctx context.Context, n int) error
}

// newTraffic returns a traffic without clients. phase is the first phase.
func newTraffic(ctx context.Context, phase string) *traffic {
	return &traffic{ctx: ctx, stop: make(chan struct{}), phase: phase}
}

// start starts another client, which runs until end is called.
func (t *traffic) start(c client) {
	t.names = append(t.names, c.name)
	t.clients.Go(func() {
		lastResponse := time.Now()
		for n := 0; ; n++ {
			select {
			case <-t.stop:
				return
			case <-time.After(c.interval):
			}
			phase := t.currentPhase()
			err := c.request(t.ctx, n)
			t.count(phase, c, err, time.Since(lastResponse))
			if err == nil {
				lastResponse = time.Now()
			}
		}
	})
}

func (t *traffic) currentPhase() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase
}

// count counts a request in a phase. since is the time since the client's last expected response.
func (t *traffic) count(phase string, c client, err error, since time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.phases, func(f *phaseStats) bool { return f.phase == phase })
	if i < 0 {
		i = len(t.phases)
		t.phases = append(t.phases, &phaseStats{phase: phase})
	}
	f := t.phases[i]
	f.requests++
	if since > f.longest && !c.slow {
		f.longest, f.slowestClient = since, c.name
	}
	if err == nil {
		return
	}
	if f.failed++; f.failed <= maxErrors {
		f.errs = append(f.errs, fmt.Errorf("%s, %s, at %s: %w", phase, c.name, time.Now().Format(time.TimeOnly), err))
	}
}

// setPhase starts another phase. Requests that are in flight still count for the phase that they started in.
func (t *traffic) setPhase(phase string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase = phase
}

// end waits for the last responses, and returns a line of figures for each phase. Its error lists the first maxErrors
// failures of each phase.
func (t *traffic) end() (report string, err error) {
	close(t.stop)
	t.clients.Wait()
	lines := []string{fmt.Sprintf("%d clients: %s", len(t.names), strings.Join(t.names, ", "))}
	var errs []error
	requests, failed := 0, 0
	for _, f := range t.phases {
		lines = append(lines, fmt.Sprintf("%s: %d requests, %d failed, at most %.2f s from one response to a client to "+
			"the next (%s)",
			f.phase, f.requests, f.failed, f.longest.Seconds(), f.slowestClient))
		errs = append(errs, f.errs...)
		requests, failed = requests+f.requests, failed+f.failed
	}
	return strings.Join(append(lines, fmt.Sprintf("in all: %d requests, %d failed", requests, failed)), "\n"),
		errors.Join(errs...)
}

// failedIn returns the number of requests that failed in a phase.
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

// checkResponse returns err if it is not nil. Otherwise it returns an error if status differs from want, or if body
// differs from text. If text is "", every body is accepted.
func checkResponse(status, want int, body, text string, err error) error {
	if err == nil && (status != want || text != "" && body != text) {
		err = fmt.Errorf("response = %d %s, want %d %s", status, cmp.Or(strings.TrimSpace(body), "without a body"), want,
			text)
	}
	return err
}
