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

	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

// lines are what a log was told, one JSON object each.
type lines struct {
	mu  sync.Mutex
	all []map[string]any
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var line map[string]any
	if err := json.NewDecoder(bytes.NewReader(p)).Decode(&line); err != nil {
		return 0, err
	}
	l.all = append(l.all, line)
	return len(p), nil
}

func (l *lines) refusals() (out []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.all {
		if line[slog.MessageKey] == "request refused" {
			out = append(out, line)
		}
	}
	return out
}

// TestEachRefusalHasALine under the id that its client has: those of heads, of
// net/http, of what is too slow, and of connections above a bound.
func TestEachRefusalHasALine(t *testing.T) {
	var told lines
	bounds := defaults(t)
	bounds.ConnectionsPerAddress, bounds.HeaderTimeout = 1, 50*time.Millisecond
	l := listenElsewhere(t)
	startLogging(t, l, http.HandlerFunc(echo), slog.New(slog.NewJSONHandler(&told, nil)), bounds)
	held := l.dial(t, "192.0.2.1:1234")
	held.served()
	for from, test := range map[string]struct {
		raw    string
		status int
	}{
		"192.0.2.1": {"", http.StatusServiceUnavailable},
		"192.0.2.2": {"GET /hidden HTTP/1.1\r\nHost: hidden:hidden\r\n\r\n", http.StatusBadRequest},
		"192.0.2.3": {"GET /% HTTP/1.1\r\nHost: hidden\r\n\r\n", http.StatusBadRequest},
		"192.0.2.4": {"GET /hidden HTTP", http.StatusRequestTimeout},
	} {
		before := len(told.refusals())
		response, _ := l.dial(t, from+":1234").send(test.raw).answer()
		if response.StatusCode != test.status {
			t.Errorf("%q: got %s", test.raw, response.Status)
		}
		all := told.refusals()[before:]
		if len(all) != 1 {
			t.Fatalf("%q has the lines %v", test.raw, all)
		}
		line := all[0]
		if line["requestId"] != response.Header.Get("X-Request-Id") || line["status"] != float64(test.status) || line["client"] != from || line["level"] != "INFO" || line["untold"] != 0.0 {
			t.Errorf("%q has the line %v", test.raw, line)
		}
		for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
			delete(line, name)
		}
		line["listener"] = "" // who wires the listener names it
		for _, wrong := range telemetrytest.Undocumented(t, "../../docs/observability.md", "## The line of a refusal", slices.Collect(maps.Keys(line))...) {
			t.Error(wrong)
		}
	}
	if raw, _ := json.Marshal(told.all); strings.Contains(string(raw), "hidden") {
		t.Errorf("what a client has sent is told: %s", raw)
	}
}

// TestAFloodOfRefusalsFillsNoLog, and it is told how many were left out.
func TestAFloodOfRefusalsFillsNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told lines
		p := make(pipes)
		startLogging(t, p, http.HandlerFunc(echo), slog.New(slog.NewJSONHandler(&told, nil)), defaults(t))
		flood := func(n int) {
			for range n {
				p.dial(t).send("GET / HTTP/3.7\r\n\r\n").refused(http.StatusHTTPVersionNotSupported)
			}
		}
		flood(200)
		if n := len(told.refusals()); n != 60 {
			t.Errorf("200 refusals at once have %d lines", n)
		}
		time.Sleep(time.Hour)
		flood(1)
		all := told.refusals()
		if last := all[len(all)-1]; len(all) != 61 || last["untold"] != 140.0 {
			t.Errorf("%d lines, the last is %v", len(all), last)
		}
	})
}
