package policy

import (
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

const abuseTestOptions = `{"by":"ip","statuses":[401,404],"limit":3,"windowMinutes":1,"blockMinutes":2}`

// TestAbusersAreBlocked checks that a caller with too many counted responses in a window is blocked for a time, also in a
// later deployment, and that other callers and other statuses do not count.
func TestAbusersAreBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := NewMemory(time.Now)
		want := func(client string, status, want int) {
			t.Helper()
			x := basicExchange(t.Context())
			x.Client = netip.MustParseAddr(client)
			if got := run(x, provisioned(t, memory, abuseType, abuseTestOptions), status); got != want {
				t.Errorf("request of %s with a handler of status %d: status = %d, want %d", client, status, got, want)
			}
		}
		const caller, other = "2001:db8::1", "192.0.2.1"
		want(caller, 404, 404)
		want(caller, 404, 404)
		time.Sleep(time.Minute) // a new window
		for _, status := range []int{404, 401, 200, 403} {
			want(caller, status, status)
		}
		want(other, 404, 404)
		want(caller, 404, 404)
		want("2001:db8::2", 200, 429) // the same /64
		want(other, 200, 200)
		time.Sleep(2*time.Minute - time.Nanosecond)
		want(caller, 200, 429)
		time.Sleep(time.Nanosecond)
		want(caller, 404, 404)
		want(caller, 200, 200)
	})
}

// TestRefusalsOfLaterPoliciesCount checks that the response of a policy counts, and that a user counts as a user.
func TestRefusalsOfLaterPoliciesCount(t *testing.T) {
	t.Parallel()
	memory := NewMemory(time.Now)
	counting := provisioned(t, memory, abuseType, `{"by":"user","statuses":[401],"limit":1}`)
	refusing := newBasicAuthPolicy(t, memory, map[string]string{"ann": hashOf(t, "x")}, nil)
	send := func(sub string) int {
		x := basicExchange(t.Context())
		if sub != "" {
			x.User = &pipeline.User{Sub: sub}
		}
		defer x.End()
		return statusOf((&pipeline.Route{
			Inbound: []pipeline.Inbound{counting, refusing}, Handler: handlerOf(http.StatusOK),
		}).Run(x))
	}
	for i, step := range []struct {
		sub  string
		want int
	}{{"ann", 401}, {"bob", 401}, {"", 401}, {"ann", 429}, {"", 429}, {"192.0.2.7", 401}} {
		if got := send(step.sub); got != step.want {
			t.Errorf("request %d of user %q: status = %d, want %d", i, step.sub, got, step.want)
		}
	}
}

// TestAbuseIsCountedExactly checks that no response is lost if many end at the same time.
func TestAbuseIsCountedExactly(t *testing.T) {
	t.Parallel()
	const n = 1000
	p := provisioned(t, NewMemory(time.Now), abuseType, `{"by":"ip","statuses":[404],"limit":1000,"windowMinutes":1440}`)
	var all sync.WaitGroup
	for range n - 1 {
		all.Go(func() { run(basicExchange(t.Context()), p, 404) })
	}
	all.Wait()
	for i, want := range []int{404, 429} {
		if got := run(basicExchange(t.Context()), p, 404); got != want {
			t.Errorf("request %d status = %d, want %d", n+i, got, want)
		}
	}
}

// waitingHandler is a handler that waits.
type waitingHandler struct {
	release chan struct{}
	most    *atomic.Int64
	running atomic.Int64
}

// Handle implements pipeline.Handler.
func (h *waitingHandler) Handle(*pipeline.Exchange) *http.Response {
	h.most.Store(max(h.most.Load(), h.running.Add(1)))
	<-h.release
	h.running.Add(-1)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
}

// TestConcurrentRequestsAreBounded checks that a caller has at most maxConcurrent requests in flight, that a request ends
// with its exchange and not with its response, and that a panic releases it. An inner exchange does not count again.
func TestConcurrentRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provisioned(t, NewMemory(time.Now), abuseType, `{"by":"ip","maxConcurrent":2}`)
		state := p.(*abuse).state
		handler := &waitingHandler{release: make(chan struct{}), most: &atomic.Int64{}}
		route := &pipeline.Route{Inbound: []pipeline.Inbound{p}, Handler: handler}
		first := basicExchange(t.Context())
		go func() { _ = statusOf(route.Run(first)) }()
		second := basicExchange(t.Context())
		go func() { defer second.End(); _ = statusOf(route.Run(second)) }()
		synctest.Wait()
		if got := run(basicExchange(t.Context()), p, 200); got != http.StatusTooManyRequests {
			t.Errorf("third request at the same time: status = %d, want 429", got)
		}
		if got := run(first.Inner(), p, 200); got != http.StatusOK {
			t.Errorf("request inside of the first one: status = %d, want 200", got)
		}
		close(handler.release)
		synctest.Wait()
		if len(state.inFlight) != 1 {
			t.Errorf("callers in flight after the response of an exchange that has not ended = %d, want 1", len(state.inFlight))
		}
		first.End()
		first.End() // releases once
		run(basicExchange(t.Context()), p, 0)
		if len(state.inFlight) != 0 || handler.most.Load() != 2 {
			t.Errorf("callers in flight at the end = %d, requests at once = %d, want 0 and 2", len(state.inFlight),
				handler.most.Load())
		}
	})
}
