// Package telemetrytest gives tests an OTLP collector that listens as a real one
// does, and compares lines of the log with their documentation.
//
// What it is not: a fake of the tracer. Spans arrive here by OTLP over HTTP,
// encoded, as they would at anybody's endpoint. Read this file; the rules are
// those of docs/observability.md.
package telemetrytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/gatewright/gatewright/shared/telemetry"
	"github.com/gatewright/gatewright/shared/telemetry/otlp"
)

// Collector is an OTLP endpoint that keeps what it is sent.
type Collector struct {
	*telemetry.Tracer
	// URL is its address, as the environment has it.
	URL string

	mu       sync.Mutex
	spans    []*tracepb.Span
	raw      []byte
	requests []*http.Request
}

// New starts a collector, and a tracer that sends to it.
func New(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(c.receive))
	t.Cleanup(server.Close)
	c.URL = server.URL
	tracer, err := otlp.Open(func(name string) string {
		return map[string]string{otlp.VarEndpoint: server.URL, otlp.VarHeaders: "x-token=a%20b"}[name]
	}, "gatewright-test", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c.Tracer = tracer
	return c
}

func (c *Collector) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err == nil {
		err = proto.Unmarshal(body, &data)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	c.raw = append(c.raw, body...)
	for _, resource := range data.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
}

// Spans returns all spans that have ended, parents before their children, and the
// bytes that they came in.
func (c *Collector) Spans(t testing.TB) (spans []*tracepb.Span, raw []byte) {
	t.Helper()
	c.Flush(t.Context())
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortStableFunc(c.spans, func(a, b *tracepb.Span) int {
		return int(a.GetStartTimeUnixNano()) - int(b.GetStartTimeUnixNano()) //nolint:gosec // G115: the difference is small
	})
	return c.spans, c.raw
}

// Requests returns the requests that spans came in.
func (c *Collector) Requests() []*http.Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// Attributes returns a span's attributes as texts.
func Attributes(s *tracepb.Span) map[string]string {
	out := make(map[string]string)
	for _, a := range s.GetAttributes() {
		_, text, _ := strings.Cut(a.GetValue().String(), ":")
		out[a.GetKey()] = strings.Trim(text, `"`)
	}
	return out
}

// Line decodes the one line of JSON that has message as its msg.
func Line(t testing.TB, log []byte, message string) map[string]any {
	t.Helper()
	var found map[string]any
	for line := range bytes.Lines(log) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		if record[slog.MessageKey] != message {
			continue
		}
		if found != nil {
			t.Fatalf("a second line %q: %s", message, log)
		}
		found = record
	}
	if found == nil {
		t.Fatalf("no line %q: %s", message, log)
	}
	return found
}

// Undocumented tells which of the names are not in the first column of the
// table below heading of the Markdown file at path, and which are there alone.
func Undocumented(t testing.TB, path, heading string, names ...string) []string {
	t.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // G304: a test names the file
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q", path, heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	told := map[string]bool{}
	for line := range strings.Lines(section) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(cell, "`")
			told[name] = true
		}
	}
	var wrong []string
	for _, name := range names {
		if !told[name] {
			wrong = append(wrong, fmt.Sprintf("%s is not documented", name))
		}
		delete(told, name)
	}
	for _, name := range slices.Sorted(maps.Keys(told)) {
		wrong = append(wrong, fmt.Sprintf("%s is documented and not there", name))
	}
	return wrong
}
