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

// messages is what a person is told beside the lines of requests: whole lines, one after the other.
type messages struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer for lines that come from elsewhere.
func (m *messages) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.w.Write(p)
}

// tell writes lines, of which nothing that a project or its files hold reaches the terminal but as text.
func (m *messages) tell(format string, args ...any) {
	_, _ = m.Write([]byte(output.PrintableLines(fmt.Sprintf(format, args...)) + "\n"))
}

// document is a request as a program is told of it, on one line.
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

// documents is a slog.Handler that writes the lines of requests as JSON documents, and nothing else.
type documents struct {
	mu    sync.Mutex
	write func([]byte) error
}

var _ slog.Handler = (*documents)(nil)

// Enabled implements slog.Handler.
func (d *documents) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// WithAttrs implements slog.Handler: nobody gives a request's line attributes from outside.
func (d *documents) WithAttrs([]slog.Attr) slog.Handler { return d }

// WithGroup implements slog.Handler.
func (d *documents) WithGroup(string) slog.Handler { return d }

// Handle implements slog.Handler.
func (d *documents) Handle(_ context.Context, r slog.Record) error {
	one := document{Time: r.Time.UTC()}
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "method":
			one.Method = a.Value.String()
		case "host":
			one.Host = a.Value.String()
		case "path":
			one.Path = a.Value.String()
		case "status":
			one.Status = a.Value.Int64()
		case "latency":
			one.Latency = a.Value.Float64()
		case "policy":
			one.Policy = a.Value.String()
		case "operation":
			one.Operation = a.Value.String()
		case "route":
			one.Route = a.Value.String()
		case "cut":
			one.Cut = a.Value.Bool()
		case "requestId":
			one.RequestID = a.Value.String()
		}
		return true
	})
	text, err := json.Marshal(one)
	if err != nil {
		return fmt.Errorf("encode a request's line: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.write(text)
}
