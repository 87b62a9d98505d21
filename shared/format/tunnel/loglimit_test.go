package tunnel_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

// TestFailingServiceLogIsLimited checks that an agent limits its
// log lines while clients send requests for a failing service.
func TestFailingServiceLogIsLimited(t *testing.T) {
	fx := newFixture(t, http.NotFoundHandler())
	fx.services[0].Endpoint = "http://127.0.0.1:1"
	var logged syncbuffer.Text
	o := fx.options()
	o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	start := time.Now()
	fx.run(o)
	const requests = 200
	for range requests {
		response, err := fx.do(http.MethodGet, "/", nil)
		if failed, ok := errors.AsType[*tunnel.Error](err); !ok || failed.Failure != tunnel.Unreachable {
			t.Fatalf("response = %v, %v, want %v", response, err, tunnel.Unreachable)
		}
	}
	maxLines := tunnel.LogBurst + 1 + int(time.Since(start)/tunnel.LogInterval)
	if n := strings.Count(logged.String(), "did not answer"); n < tunnel.LogBurst || n > maxLines {
		t.Fatalf("log lines of %d failed requests = %d, want %d to %d", requests, n, tunnel.LogBurst, maxLines)
	}
	// The next line has the number of failures without a line.
	for deadline := time.Now().Add(timeout); !strings.Contains(logged.String(),
		"untold="); time.Sleep(tunnel.LogInterval / 4) {
		_, _ = fx.do(http.MethodGet, "/", nil)
		if time.Now().After(deadline) {
			t.Fatalf("log after %v = %s, want the number of failures without a line", timeout, logged.String())
		}
	}
}
