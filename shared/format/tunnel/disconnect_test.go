package tunnel

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// TestArrivingResponseIsReceived simulates the events of a request, each as one letter. In the
// order of their names: l means that the client disconnects, a that the first byte of a response
// arrives, h that a 1xx response arrives, and o that the transport returns the response.
func TestArrivingResponseIsReceived(t *testing.T) {
	for _, c := range []struct {
		events                  string
		wantCanceled, delivered bool
	}{
		{"", false, true},
		{"l", true, false},
		{"a", false, true},
		{"al", false, false}, // canceling would lose the response's bytes
		{"alo", false, false},
		{"ao", false, true},
		{"aol", true, true},
		{"ah", false, true},
		{"ahl", true, false},
		{"alh", true, false},
	} {
		client, disconnect := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(client, http.MethodGet, "http://service.test/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		var a trackedRequest
		out, stop := a.watch(r)
		delivered, finished := false, false
		for _, event := range c.events {
			trace := httptrace.ContextClientTrace(out.Context())
			switch event {
			case 'l':
				a.disconnect()
			case 'a':
				trace.GotFirstResponseByte()
			case 'h':
				_ = trace.Got1xxResponse(http.StatusEarlyHints, nil)
			case 'o':
				delivered, finished = a.markReturned(), true
			}
		}
		if !finished {
			delivered = a.markReturned()
		}
		if canceled := out.Context().Err() != nil; canceled != c.wantCanceled || delivered != c.delivered {
			t.Errorf("events %q: request canceled = %v, response delivered = %v, want %v, %v",
				c.events, canceled, delivered, c.wantCanceled, c.delivered)
		}
		stop()
		disconnect()
	}
}
