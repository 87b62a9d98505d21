package dev

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gatewright/gatewright/client/output"
)

// messages writes messages for people as whole lines. It is safe for concurrent use. Log lines of requests are not
// among these messages.
type messages struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer for lines of other writers.
func (m *messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.w.Write(p)
}

// printf writes lines. It escapes control characters that come from a project or its files.
func (m *messages) printf(format string, args ...any) {
	_, _ = m.Write([]byte(output.PrintableLines(fmt.Sprintf(format, args...)) + "\n"))
}

// document is the JSON document of a request, for programs. Policy is the policy that refused the request. Cut says
// that the client did not receive the whole response.
type document struct {
	Time      time.Time `json:"time"`
	Method    string    `json:"method"`
	Host      string    `json:"host"`
	Path      string    `json:"path"`
	Status    int64     `json:"status"`
	Latency   float64   `json:"latencyMs"`
	Policy    string    `json:"policy,omitempty"`
	Operation string    `json:"operation,omitempty"`
	Route     string    `json:"route,omitempty"`
	Cut       bool      `json:"cut,omitempty"`
	RequestID string    `json:"requestId"`
}

// documents is a slog.Handler that writes a JSON document for each request.
type documents struct {
	mu    sync.Mutex
	write func([]byte) error
}

var _ slog.Handler = (*documents)(nil)

// Enabled implements slog.Handler.
func (d *documents) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler. No caller adds attributes to the log line of a request.
func (d *documents) WithAttrs([]slog.Attr) slog.Handler { return d }

// WithGroup implements slog.Handler.
func (d *documents) WithGroup(string) slog.Handler { return d }

// Handle implements slog.Handler.
func (d *documents) Handle(_ context.Context, r slog.Record) error {
	entry := document{Time: r.Time.UTC()}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "method":
			entry.Method = a.Value.String()
		case "host":
			entry.Host = a.Value.String()
		case "path":
			entry.Path = a.Value.String()
		case "status":
			entry.Status = a.Value.Int64()
		case "latency":
			entry.Latency = a.Value.Float64()
		case "policy":
			entry.Policy = a.Value.String()
		case "operation":
			entry.Operation = a.Value.String()
		case "route":
			entry.Route = a.Value.String()
		case "cut":
			entry.Cut = a.Value.Bool()
		case "requestId":
			entry.RequestID = a.Value.String()
		}
		return true
	})
	text, err := json.Marshal(entry)
	if err != nil {
		return fmt.Errorf("encode a request's line: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write(text)
}
