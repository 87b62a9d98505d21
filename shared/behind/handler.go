package behind

import (
	"context"
	"log/slog"
)

// TellLost says that lines were dropped, to a log that waits for none.
func TellLost(log *slog.Logger, lines int) {
	log.Warn("lines of the log were dropped: there were more than could be written", "lines", lines)
}

// OfRequest reports whether a record is the line that each request has: of those that may wait.
func OfRequest(r slog.Record) bool { return r.Message == "request" }

// Handler handles records by another handler that writes to w, and has those written at once, with all before them, that may not
// wait: what is rare, and what tells why a process is about to end.
func Handler(by slog.Handler, w *Writer, mayWait func(slog.Record) bool) slog.Handler {
	return handler{by, w, mayWait}
}

type handler struct {
	by      slog.Handler
	w       *Writer
	mayWait func(slog.Record) bool
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool { return h.by.Enabled(ctx, level) }

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.by.Handle(ctx, r)
	if !h.mayWait(r) {
		h.w.Flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.by = h.by.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.by = h.by.WithGroup(name)
	return h
}
