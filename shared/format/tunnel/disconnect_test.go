package tunnel

import (
	"context"
	"net/http"
	"net/http/httptrace"
	"testing"
)

// TestArrivingResponseIsReceived simulates the events of a request, each as one letter: d means
// that the client disconnects, b that the first byte of a response arrives, h that a 1xx response
// arrives, and r that the transport returns the response. It checks whether the request is canceled,
// and whether the response is for a client that still waits.
func TestArrivingResponseIsReceived(t *testing.T) {
	for _, c := range []struct {
		events                      string
		wantCanceled, wantDelivered bool
	}{
		{"", false, true},
		{"d", true, false},
		{"b", false, true},
		{"bd", false, false}, // canceling would lose the response's bytes
		{"bdr", false, false},
		{"br", false, true},
		{"brd", true, true},
		{"bh", false, true},
		{"bhd", true, false},
		{"bdh", true, false},
	} {
		client, disconnect := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(client, http.MethodGet, "http://service.test/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		var tracked trackedRequest
		out, stop := tracked.watch(r)
		delivered, finished := false, false
		for _, event := range c.events {
			trace := httptrace.ContextClientTrace(out.Context())
			switch event {
			case 'd':
				tracked.disconnect()
			case 'b':
				trace.GotFirstResponseByte()
			case 'h':
				_ = trace.Got1xxResponse(http.StatusEarlyHints, nil)
			case 'r':
				delivered, finished = tracked.markReturned(), true
			}
		}
		if !finished {
			delivered = tracked.markReturned()
		}
		if canceled := out.Context().Err() != nil; canceled != c.wantCanceled || delivered != c.wantDelivered {
			t.Errorf("events %q: request canceled = %v, response delivered = %v, want %v, %v",
				c.events, canceled, delivered, c.wantCanceled, c.wantDelivered)
		}
		stop()
		disconnect()
	}
}
