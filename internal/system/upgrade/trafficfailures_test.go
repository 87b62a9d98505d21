package upgrade_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTrafficReportsFailures checks that the report has the failures and the longest time between two expected
// responses for each phase, and that the error names the phase and the client of the first maxErrors failures.
func TestTrafficReportsFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := newTraffic(t.Context(), "before")
		var failing atomic.Bool
		traffic.start(client{name: "reads", interval: 100 * time.Millisecond, request: func(context.Context, int) error {
			if failing.Load() {
				return errors.New("nobody answers")
			}
			return nil
		}})
		traffic.start(client{
			name: "builds", interval: 10 * time.Second, slow: true,
			request: func(context.Context, int) error { return nil },
		})
		time.Sleep(10*time.Second + 50*time.Millisecond)
		traffic.setPhase("update")
		failing.Store(true)
		time.Sleep(2 * time.Second)
		failing.Store(false)
		time.Sleep(8 * time.Second)
		traffic.setPhase("after")
		time.Sleep(time.Second)
		report, err := traffic.end()
		const want = `2 clients: reads, builds
before: 101 requests, 0 failed, at most 0.10 s from one response to a client to the next (reads)
update: 101 requests, 20 failed, at most 2.10 s from one response to a client to the next (reads)
after: 10 requests, 0 failed, at most 0.10 s from one response to a client to the next (reads)
in all: 212 requests, 20 failed`
		if report != want {
			t.Errorf("end() report =\n%s\nwant\n%s", report, want)
		}
		if err == nil || strings.Count(err.Error(), "update, reads, at ") != maxErrors {
			t.Errorf("end() error = %v, want %d failures of the update", err, maxErrors)
		}
		if n := traffic.failedIn("before") + traffic.failedIn("after"); n > 0 {
			t.Errorf("%d requests failed outside of the update, want 0", n)
		}
	})
}

// TestUnexpectedResponseIsAFailure checks that a response with another status or another body is a failure, and so is an incomplete
// response.
func TestUnexpectedResponseIsAFailure(t *testing.T) {
	requestErr := errors.New("gone")
	for name, tc := range map[string]struct {
		err    error
		status int
		body   string
		failed bool
	}{
		"the expected response": {nil, 200, upResponse, false},
		"another status":        {nil, 502, upResponse, true},
		"another body":          {nil, 200, "another's", true},
		"no response":           {requestErr, 0, "", true},
		"a truncated response":  {requestErr, 200, upResponse, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := checkResponse(tc.status, 200, tc.body, upResponse, tc.err); (err != nil) != tc.failed {
				t.Errorf("checkResponse(%d, %q) = %v, want a failure = %v", tc.status, tc.body, err, tc.failed)
			}
		})
	}
}
