// Package telemetrytest provides an OTLP collector for tests, finds lines in logs, and compares names with their
// documentation.
//
// It does not fake the tracer: the collector receives encoded spans by OTLP over HTTP, like a real one. Read this
// file; docs/observability.md has the rules.
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

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/base/telemetry/otlp"
)

// Collector is an OTLP endpoint that keeps the received spans, with a Tracer that sends spans to it.
type Collector struct {
	*telemetry.Tracer
	// URL is the collector's address, in the form of OpenTelemetry's environment variable.
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

// Spans returns all spans that have ended, parents before their children. raw has the bodies of the requests that
// sent them, one after another.
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

// Requests returns the received requests, which contain the spans. Their bodies have been read.
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

// Line decodes the only line of JSON whose field msg is message.
func Line(t testing.TB, log []byte, message string) map[string]any {
	t.Helper()
	var found map[string]any
	for line := range bytes.Lines(log) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatalf("log line %q: %v, want a JSON object", line, err)
		}
		if record[slog.MessageKey] != message {
			continue
		}
		if found != nil {
			t.Fatalf("log has several lines with the message %q, want one: %s", message, log)
		}
		found = record
	}
	if found == nil {
		t.Fatalf("log has no line with the message %q, want one: %s", message, log)
	}
	return found
}

// Undocumented compares names with the first column of the table below a heading of the Markdown file at path. It
// returns a line for each name that the table lacks, and for each name that is only in the table.
func Undocumented(t testing.TB, path, heading string, names ...string) []string {
	t.Helper()
	text, err := os.ReadFile(path) //nolint:gosec // G304: a test names the file
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n"+heading+"\n")
	if !ok {
		t.Fatalf("%s has no heading %q, want one", path, heading)
	}
	section, _, _ = strings.Cut(section, "\n#")
	documented := map[string]bool{}
	for line := range strings.Lines(section) {
		if cell, ok := strings.CutPrefix(line, "| `"); ok {
			name, _, _ := strings.Cut(cell, "`")
			documented[name] = true
		}
	}
	var problems []string
	for _, name := range names {
		if !documented[name] {
			problems = append(problems, fmt.Sprintf("%s is missing in the table", name))
		}
		delete(documented, name)
	}
	for _, name := range slices.Sorted(maps.Keys(documented)) {
		problems = append(problems, fmt.Sprintf("%s is in the table, but does not exist", name))
	}
	return problems
}
