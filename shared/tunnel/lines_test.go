package tunnel_test

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/printed"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestServiceThatIsDownFillsNoLog of an agent, though clients go on asking.
func TestServiceThatIsDownFillsNoLog(t *testing.T) {
	w := newWorld(t, http.NotFoundHandler())
	w.services[0].Endpoint = "http://127.0.0.1:1"
	var logged printed.Text
	o := w.options()
	o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	began := time.Now()
	w.run(o)
	const asked = 200
	for range asked {
		response, err := w.ask(http.MethodGet, "/", nil)
		if failed, ok := errors.AsType[*tunnel.Error](err); !ok || failed.Failure != tunnel.Unreachable {
			t.Fatalf("it is answered %v, %v", response, err)
		}
	}
	most := tunnel.LinesAtOnce + 1 + int(time.Since(began)/tunnel.LineEvery)
	if n := strings.Count(logged.String(), "did not answer"); n < tunnel.LinesAtOnce || n > most {
		t.Fatalf("%d requests have %d lines, want %d at most", asked, n, most)
	}
	// The next line tells of those that had none.
	for deadline := time.Now().Add(timeout); !strings.Contains(logged.String(), "untold="); time.Sleep(tunnel.LineEvery / 4) {
		_, _ = w.ask(http.MethodGet, "/", nil)
		if time.Now().After(deadline) {
			t.Fatal("nothing tells of failures without a line")
		}
	}
}
