package endpoint_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/mcp/endpoint"
)

// TestPanicsAreLoggedUnlessTheyAreMeant, and never told: http.ErrAbortHandler is how a handler of net/http gives up.
func TestPanicsAreLoggedUnlessTheyAreMeant(t *testing.T) {
	for cause, logged := range map[any]bool{http.ErrAbortHandler: false, "the secret cause": true} {
		var log strings.Builder
		text := endpoint.Failed(slog.New(slog.NewTextHandler(&log, nil)))(t.Context(), cause)
		if strings.Contains(text, "secret") || !strings.Contains(text, "request id") {
			t.Errorf("%v: the client is told %q", cause, text)
		}
		if got := strings.Contains(log.String(), "the secret cause"); got != logged || (log.Len() > 0) != logged {
			t.Errorf("%v: the log is %q", cause, &log)
		}
	}
}

func TestEachVersionIsDescribed(t *testing.T) {
	for _, version := range mcp.Versions() {
		if !strings.Contains(endpoint.Describe(), version) {
			t.Errorf("%s is not in %q", version, endpoint.Describe())
		}
	}
}
