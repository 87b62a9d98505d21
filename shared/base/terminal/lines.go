package terminal

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Lines is a slog.Handler that shows each record as one line for a person: a request as "15:04:05 200 GET
// /v1/who-am-i 2ms", a failed durable operation as "15:04:05 error build shop-main-1a2b3c4 1.1s …", anything else as
// its message and attributes. If the gateway handles more than maxLinesPerSecond requests in a second, the handler
// shows one summary line for the others. It does not show successful background work (status "success"), because each
// change would cause several lines.
type Lines struct {
	t          *Terminal
	aggregator *requestAggregator
	level      slog.Leveler
	attrs      []slog.Attr
	group      string
}

var _ slog.Handler = (*Lines)(nil)

// Lines returns a handler that shows records of the level and above. The level can change (slog.LevelVar).
func (t *Terminal) Lines(level slog.Leveler) *Lines {
	return &Lines{t: t, aggregator: &requestAggregator{t: t, suffix: "; each is in the log file"}, level: level}
}

// LinesWithoutFile is like Lines, for a process without a log file.
func (t *Terminal) LinesWithoutFile(level slog.Leveler) *Lines {
	return &Lines{t: t, aggregator: &requestAggregator{t: t}, level: level}
}

// Flush shows the pending summary line, if requests have been counted for it. Call it before the process ends.
func (l *Lines) Flush() { l.aggregator.show() }

// Enabled implements slog.Handler.
func (l *Lines) Enabled(_ context.Context, level slog.Level) bool { return level >= l.level.Level() }

// WithAttrs implements slog.Handler.
func (l *Lines) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *l
	c.attrs = slices.Clone(l.attrs)
	for _, a := range attrs {
		a.Key = l.group + a.Key
		c.attrs = append(c.attrs, a)
	}
	return &c
}

// WithGroup implements slog.Handler.
func (l *Lines) WithGroup(name string) slog.Handler {
	if name == "" {
		return l
	}
	c := *l
	c.group += name + "."
	return &c
}

// Handle implements slog.Handler. It prints the record's line.
func (l *Lines) Handle(_ context.Context, r slog.Record) error {
	if l.group == "" && l.aggregator.aggregate(r) {
		return nil
	}
	attrs := slices.Clone(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		a.Key = l.group + a.Key
		attrs = append(attrs, a)
		return true
	})
	if r.Level <= slog.LevelInfo && slices.ContainsFunc(attrs, succeeded) {
		return nil
	}
	line := l.t.style(r.Time.Format(time.TimeOnly), dim) + " "
	if request, ok := l.request(attrs); ok && r.Message == "request" {
		line += request
	} else if operation, ok := l.operation(attrs); ok && r.Message == "an operation has ended" {
		line += operation
	} else {
		line += l.t.style(level(r.Level), levelColor(r.Level)) + r.Message
		for _, a := range attrs {
			line += " " + l.t.style(a.Key+"=", dim) + text(a.Value)
		}
	}
	l.t.print(line + "\n")
	return nil
}

// success is operation.Succeed. If this package imported package operation, every program that prints a line would
// contain the store and AWS's SDK.
const success = "success"

// succeeded reports whether an attribute is the status of successful background work, as operations log it. The
// status of a request is a number, so it never matches.
func succeeded(a slog.Attr) bool {
	return a.Key == "status" && a.Value.Resolve().String() == success
}

// request formats the attributes of a request's record. It returns false if they are not of a request. It leaves out
// the other attributes, which are in the log file.
func (l *Lines) request(attrs []slog.Attr) (string, bool) {
	find := finder(attrs)
	method, ok1 := find("method")
	path, ok2 := find("path")
	status, ok3 := find("status")
	if !ok1 || !ok2 || !ok3 || status.Kind() != slog.KindInt64 {
		return "", false
	}
	code := status.Int64()
	out := l.t.style(status.String(), statusColor(int(code))) + " " + text(method) + " "
	if host, ok := find("host"); ok {
		out += text(host)
	}
	out += text(path)
	out += l.latency(find)
	if policy, ok := find("policy"); ok && policy.String() != "" {
		out += " " + l.t.style("answered by the policy ", dim) + text(policy)
	}
	if id, ok := find("requestId"); ok && code >= 400 {
		out += " " + l.t.style("requestId="+text(id), dim)
	}
	if cause, ok := find("error"); ok && code >= 500 {
		out += " " + text(cause)
	}
	return out, true
}

func statusColor(code int) string {
	switch {
	case code >= 500:
		return red
	case code >= 400:
		return yellow
	}
	return green
}

// operation formats the record of a failed durable operation: its kind, its subject and the reason. It returns false
// if the attributes are not of such a record.
func (l *Lines) operation(attrs []slog.Attr) (string, bool) {
	find := finder(attrs)
	kind, ok1 := find("kind")
	subject, ok2 := find("subject")
	status, ok3 := find("status")
	if !ok1 || !ok2 || !ok3 {
		return "", false
	}
	out := l.t.style(text(status), red) + " " + text(kind) + " " + text(subject) + l.latency(find)
	if id, ok := find("operation"); ok {
		out += " " + l.t.style("operation="+text(id), dim)
	}
	if message, ok := find("message"); ok {
		out += " " + text(message)
	}
	return out, true
}

// finder returns a function that looks up an attribute.
func finder(attrs []slog.Attr) func(key string) (slog.Value, bool) {
	return func(key string) (slog.Value, bool) {
		i := slices.IndexFunc(attrs, func(a slog.Attr) bool { return a.Key == key })
		if i < 0 {
			return slog.Value{}, false
		}
		return attrs[i].Value.Resolve(), true
	}
}

// latency formats the duration of a record, with a space before it. It returns "" if the record has none.
func (l *Lines) latency(find func(string) (slog.Value, bool)) string {
	ms, ok := find("latency")
	if !ok || ms.Kind() != slog.KindFloat64 && ms.Kind() != slog.KindInt64 {
		return ""
	}
	return " " + l.t.style(roundDuration(milliseconds(ms)), dim)
}

// milliseconds reads a number of milliseconds. It returns 0 for other values.
func milliseconds(v slog.Value) time.Duration {
	switch v.Kind() { //nolint:exhaustive // no other kind is a number
	case slog.KindFloat64:
		return time.Duration(v.Float64() * float64(time.Millisecond))
	case slog.KindInt64: // a function's record was parsed from JSON text
		return time.Duration(v.Int64()) * time.Millisecond
	}
	return 0
}

// roundDuration formats a duration with the precision that people need to compare durations.
func roundDuration(d time.Duration) string {
	switch {
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	}
	return d.Round(time.Microsecond).String()
}

func level(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error: "
	case l >= slog.LevelWarn:
		return "warning: "
	}
	return ""
}

func levelColor(l slog.Level) string {
	if l >= slog.LevelError {
		return red
	}
	return yellow
}

// maxText is the maximum length of a shown value in bytes.
const maxText = 300

// text returns the first line of a value, because stack traces belong in the log file. It shortens long lines. It
// quotes lines with control characters, so that text from clients cannot control the terminal, and empty lines and
// lines with quotation marks.
func text(v slog.Value) string {
	s, omitted, _ := strings.Cut(v.Resolve().String(), "\n")
	if len(s) > maxText {
		s, omitted = strings.ToValidUTF8(s[:maxText], ""), s[maxText:]
	}
	if omitted != "" {
		s += "…"
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '"'
	}) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
