package world_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/world"
)

// TestMetricThatIsMissingIsAnError: 0 in its place is within every limit.
func TestMetricThatIsMissingIsAnError(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = io.WriteString(w, "# HELP goroutines Goroutines.\ngoroutines 12\nempty 0\nsmall{of=\"x\"} 3\nheap_bytes 1.5e+06\n")
		}
	}))
	defer server.Close()
	admin := strings.TrimPrefix(server.URL, "http://")
	got, err := world.Gauges(t.Context(), admin, "goroutines", "empty", "heap_bytes")
	if err != nil || got["goroutines"] != 12 || got["empty"] != 0 || got["heap_bytes"] != 1.5e6 {
		t.Errorf("Gauges() = %v, %v, want 12, 0 and 1500000", got, err)
	}
	if _, err := world.Gauges(t.Context(), admin, "goroutines", "small"); err == nil || !strings.Contains(err.Error(), "no small") {
		t.Errorf("Gauges(a name without a value) = %v, want an error that names it", err)
	}
	status = http.StatusNotFound
	if _, err := world.Gauges(t.Context(), admin, "goroutines"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("Gauges() of a process without metrics = %v, want an error with the status", err)
	}
}
