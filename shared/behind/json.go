package behind

import (
	"context"
	"io"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"
)

// JSON is slog's JSONHandler, by which it writes all records but plain ones. A plain one is written by itself, to the same bytes at less
// than half of the cost: it has texts of ASCII in which nothing is escaped, whole numbers, truth values, and fractions
// that have no exponent. The lines of requests are. level is the lowest that is written.
//
// w is asked once for each record, by many at once.
func JSON(w io.Writer, level slog.Leveler) slog.Handler {
	return &plain{by: slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}), w: w}
}

type plain struct {
	by *slog.JSONHandler
	w  io.Writer
	// lines are reused between records.
	lines sync.Pool
}

// Enabled implements slog.Handler.
func (p *plain) Enabled(ctx context.Context, level slog.Level) bool { return p.by.Enabled(ctx, level) }

// WithAttrs implements slog.Handler.
func (p *plain) WithAttrs(attrs []slog.Attr) slog.Handler { return p.by.WithAttrs(attrs) }

// WithGroup implements slog.Handler.
func (p *plain) WithGroup(name string) slog.Handler { return p.by.WithGroup(name) }

// usual is what a line begins with: that of a request has some 500 bytes.
const usual = 1 << 10

// Handle implements slog.Handler.
func (p *plain) Handle(ctx context.Context, r slog.Record) error {
	kept, ok := p.lines.Get().(*[]byte)
	if !ok {
		kept = new(make([]byte, 0, usual))
	}
	defer p.lines.Put(kept)
	line, ok := appendRecord((*kept)[:0], &r)
	if !ok {
		return p.by.Handle(ctx, r)
	}
	if cap(line) <= 4*usual {
		*kept = line
	}
	_, err := p.w.Write(line)
	return err
}

// appendRecord appends a record's line, or reports that it is not plain.
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
		// Beyond these encoding/json writes an exponent.
		f := a.Value.Float64()
		size := math.Abs(f)
		return strconv.AppendFloat(line, f, 'f', -1, 64), f == 0 || size >= 1e-6 && size < 1e21
	}
	return line, false
}

// isPlain reports whether a text stands in JSON as it is.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
