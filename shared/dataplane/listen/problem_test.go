package listen_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
)

// logRecorder records the lines of a log, which are JSON objects.
type logRecorder struct {
	mu      sync.Mutex
	entries []map[string]any
}

func (l *logRecorder) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var line map[string]any
	if err := json.NewDecoder(bytes.NewReader(p)).Decode(&line); err != nil {
		return 0, err
	}
	l.entries = append(l.entries, line)
	return len(p), nil
}

// refusals returns the lines that log a refusal.
func (l *logRecorder) refusals() (out []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.entries {
		if line[slog.MessageKey] == "request refused" {
			out = append(out, line)
		}
	}
	return out
}

// TestEachRefusalIsLogged checks that each refusal is logged once, with the ID that the client
// receives. It checks two invalid heads, an incomplete head, and a connection above a limit. It also
// checks that the log has nothing of what the client sent, and that the documentation names the fields of the lines.
func TestEachRefusalIsLogged(t *testing.T) {
	var logged logRecorder
	settings := defaults(t)
	settings.ConnectionsPerAddress, settings.HeaderTimeout = 1, 50*time.Millisecond
	l := newAddressedListener(t)
	startLogging(t, l, http.HandlerFunc(echo), slog.New(slog.NewJSONHandler(&logged, nil)), settings)
	idle := l.dial(t, "192.0.2.1:1234")
	idle.mustServe()
	for from, test := range map[string]struct {
		raw    string
		status int
	}{
		"192.0.2.1": {"", http.StatusServiceUnavailable},
		"192.0.2.2": {"GET /hidden HTTP/1.1\r\nHost: hidden:hidden\r\n\r\n", http.StatusBadRequest},
		"192.0.2.3": {"GET /% HTTP/1.1\r\nHost: hidden\r\n\r\n", http.StatusBadRequest},
		"192.0.2.4": {"GET /hidden HTTP", http.StatusRequestTimeout},
	} {
		before := len(logged.refusals())
		response, _ := l.dial(t, from+":1234").send(test.raw).readResponse()
		if response.StatusCode != test.status {
			t.Errorf("client %s sent %q: status = %s, want %d", from, test.raw, response.Status, test.status)
		}
		all := logged.refusals()[before:]
		if len(all) != 1 {
			t.Fatalf("client %s sent %q: log lines = %v, want 1", from, test.raw, all)
		}
		line := all[0]
		id := response.Header.Get("X-Request-Id")
		if line["requestId"] != id || line["status"] != float64(test.status) || line["client"] != from {
			t.Errorf("%q: log line = %v, want requestId %s, status %d and client %s", test.raw, line, id, test.status, from)
		}
		if line["level"] != "INFO" || line["untold"] != 0.0 {
			t.Errorf("%q: log line = %v, want level INFO and untold 0", test.raw, line)
		}
		for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
			delete(line, name)
		}
		line["listener"] = "" // the product adds the listener's name
		for _, diff := range telemetrytest.Undocumented(t, "../../../docs/observability.md", "## The line of a refusal",
			slices.Collect(maps.Keys(line))...) {
			t.Errorf("documentation of the log line of a refusal: %s, want the same names", diff)
		}
	}
	if raw, _ := json.Marshal(logged.entries); strings.Contains(string(raw), "hidden") {
		t.Errorf("log contains what a client sent, want none: %s", raw)
	}
}

// TestRefusalLogIsRateLimited checks that many refusals cause few log lines,
// and that a later line has the number of refusals that were not logged.
func TestRefusalLogIsRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged logRecorder
		p := make(pipes)
		startLogging(t, p, http.HandlerFunc(echo), slog.New(slog.NewJSONHandler(&logged, nil)), defaults(t))
		flood := func(n int) {
			for range n {
				p.dial(t).send("GET / HTTP/3.7\r\n\r\n").wantRefusal(http.StatusHTTPVersionNotSupported)
			}
		}
		flood(200)
		if n := len(logged.refusals()); n != 60 {
			t.Errorf("log lines of 200 refusals = %d, want 60", n)
		}
		time.Sleep(time.Hour)
		flood(1)
		all := logged.refusals()
		if last := all[len(all)-1]; len(all) != 61 || last["untold"] != 140.0 {
			t.Errorf("refusal after an hour: log lines = %d, the last = %v, want 61 and untold 140", len(all), last)
		}
	})
}
