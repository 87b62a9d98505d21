package asynclog

import (
	"context"
	"log/slog"
)

// LogDropped logs that lines were dropped. log must not wait for the Writer that has dropped them (Flush, Handler).
func LogDropped(log *slog.Logger, lines int) {
	log.Warn("lines of the log were dropped: there were more than could be written", "lines", lines)
}

// IsRequest reports whether a record is the log line of a request. Such a record does not have to be written
// immediately.
func IsRequest(r slog.Record) bool { return r.Message == "request" }

// Handler returns a handler that passes records to next, which writes to w. It flushes w after each record for which
// canWait returns false. canWait should return false for rare records, and for records that explain why a process is
// about to end.
func Handler(next slog.Handler, w *Writer, canWait func(slog.Record) bool) slog.Handler {
	return handler{next, w, canWait}
}

type handler struct {
	next    slog.Handler
	w       *Writer
	canWait func(slog.Record) bool
}

// Enabled implements slog.Handler.
func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	err := h.next.Handle(ctx, r)
	if !h.canWait(r) {
		h.w.Flush()
	}
	return err
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.next = h.next.WithAttrs(attrs)
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	h.next = h.next.WithGroup(name)
	return h
}
