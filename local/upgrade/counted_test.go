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

// TestTrafficTellsWhatFailed, in which phase and of which client, and how long a client went without a good answer.
func TestTrafficTellsWhatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		traffic := newTraffic(t.Context(), "before")
		var down atomic.Bool
		traffic.begin(client{name: "reads", pause: 100 * time.Millisecond, ask: func(context.Context, int) error {
			if down.Load() {
				return errors.New("nobody answers")
			}
			return nil
		}})
		traffic.begin(client{name: "builds", pause: 10 * time.Second, slow: true, ask: func(context.Context, int) error { return nil }})
		time.Sleep(10*time.Second + 50*time.Millisecond)
		traffic.during("update")
		down.Store(true)
		time.Sleep(2 * time.Second)
		down.Store(false)
		time.Sleep(8 * time.Second)
		traffic.during("after")
		time.Sleep(time.Second)
		told, err := traffic.end()
		const want = `2 clients: reads, builds
before: 101 requests, 0 failed, at most 0.10 s from one answer of a client to the next (reads)
update: 101 requests, 20 failed, at most 2.10 s from one answer of a client to the next (reads)
after: 10 requests, 0 failed, at most 0.10 s from one answer of a client to the next (reads)
in all: 212 requests, 20 failed`
		if told != want {
			t.Errorf("it tells\n%s\nwant\n%s", told, want)
		}
		if err == nil || strings.Count(err.Error(), "update, reads, at ") != mostErrors {
			t.Errorf("of what failed it tells %v", err)
		}
		if n := traffic.failedIn("before") + traffic.failedIn("after"); n > 0 {
			t.Errorf("%d requests fail outside the update", n)
		}
	})
}

// TestAnswerThatIsAnotherIsAFailure, whatever its status.
func TestAnswerThatIsAnotherIsAFailure(t *testing.T) {
	gone := errors.New("gone")
	for name, tc := range map[string]struct {
		err    error
		status int
		body   string
		failed bool
	}{
		"what was asked for":    {nil, 200, upped, false},
		"another status":        {nil, 502, upped, true},
		"another body":          {nil, 200, "another's", true},
		"no answer":             {gone, 0, "", true},
		"an answer that is cut": {gone, 200, upped, true},
	} {
		t.Run(name, func(t *testing.T) {
			if err := answered(tc.status, 200, tc.body, upped, tc.err); (err != nil) != tc.failed {
				t.Errorf("it is taken for %v", err)
			}
		})
	}
}
