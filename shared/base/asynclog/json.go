package asynclog

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"
)

// JSON returns a handler that writes the same bytes as slog's JSONHandler. It encodes plain records itself, at less
// than half of the cost. It passes other records to JSONHandler. The handlers that its methods WithAttrs and
// WithGroup return are JSONHandlers. A plain record has a time, ASCII texts without characters to escape, integers,
// booleans, and fractions that need no exponent. The records of requests are plain. level is the lowest level that is
// written.
//
// The handler calls w.Write once for each record, possibly from several goroutines at the same time.
func JSON(w io.Writer, level slog.Leveler) slog.Handler {
	return &jsonHandler{fallback: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}), w: w}
}

type jsonHandler struct {
	fallback *slog.JSONHandler
	w        io.Writer
	// buffers are reused between records.
	buffers sync.Pool
}

// Enabled implements slog.Handler.
func (h *jsonHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.fallback.Enabled(ctx, level)
}

// WithAttrs implements slog.Handler.
func (h *jsonHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.fallback.WithAttrs(attrs) }

// WithGroup implements slog.Handler.
func (h *jsonHandler) WithGroup(name string) slog.Handler { return h.fallback.WithGroup(name) }

// initialLineBytes is the initial capacity of a line. The line of a request has some 500 bytes.
const initialLineBytes = 1 << 10

// Handle implements slog.Handler.
func (h *jsonHandler) Handle(ctx context.Context, r slog.Record) error {
	buf, ok := h.buffers.Get().(*[]byte)
	if !ok {
		buf = new(make([]byte, 0, initialLineBytes))
	}
	defer h.buffers.Put(buf)
	line, ok := appendRecord((*buf)[:0], &r)
	if !ok {
		return h.fallback.Handle(ctx, r)
	}
	if cap(line) <= 4*initialLineBytes {
		*buf = line
	}
	_, err := h.w.Write(line)
	return err
}

// appendRecord appends a record's line. It returns false if the record is not plain.
func appendRecord(line []byte, r *slog.Record) ([]byte, bool) {
	if year := r.Time.Year(); r.Time.IsZero() || year < 0 || year > 9999 || !isPlain(r.Message) {
		return line, false
	}
	line = append(line, `{"time":"`...)
	line = r.Time.AppendFormat(line, time.RFC3339Nano)
	line = append(line, `","level":"`...)
	line = append(line, r.Level.String()...)
	line = append(line, `","msg":"`...)
	line = append(line, r.Message...)
	line = append(line, '"')
	ok := true
	r.Attrs(func(a slog.Attr) bool {
		line, ok = appendAttr(line, a)
		return ok
	})
	return append(line, "}\n"...), ok
}

func appendAttr(line []byte, a slog.Attr) ([]byte, bool) {
	if a.Key == "" || !isPlain(a.Key) {
		return line, false
	}
	line = append(line, `,"`...)
	line = append(line, a.Key...)
	line = append(line, `":`...)
	switch a.Value.Kind() { //nolint:exhaustive // the others are not plain
	case slog.KindString:
		text := a.Value.String()
		line = append(line, '"')
		line = append(line, text...)
		return append(line, '"'), isPlain(text)
	case slog.KindInt64:
		return strconv.AppendInt(line, a.Value.Int64(), 10), true
	case slog.KindBool:
		return strconv.AppendBool(line, a.Value.Bool()), true
	case slog.KindFloat64:
		// If the number is not 0 and not in the range below, encoding/json writes an exponent.
		f := a.Value.Float64()
		size := math.Abs(f)
		return strconv.AppendFloat(line, f, 'f', -1, 64), f == 0 || size >= 1e-6 && size < 1e21
	}
	return line, false
}

// isPlain reports whether a text is ASCII and needs no escapes in JSON.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
