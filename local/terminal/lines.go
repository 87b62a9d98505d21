package terminal

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

// Lines is a slog.Handler that shows each record as one line for a person: a
// request as "15:04:05 200 GET /v1/who-am-i 2ms", those of the gateway by their sum where there are too many to read, a durable operation that has failed as
// "15:04:05 error build shop-main-1a2b3c4 1.1s …", anything else as its message and
// attributes. Work behind requests that went well, with the status "success", is not
// shown: each change would have lines of it beside its own.
type Lines struct {
	t     *Terminal
	burst *burst
	level slog.Leveler
	attrs []slog.Attr
	group string
}

var _ slog.Handler = (*Lines)(nil)

// Lines makes a handler that shows records of the level and above. The level
// may change (slog.LevelVar).
func (t *Terminal) Lines(level slog.Leveler) *Lines {
	return &Lines{t: t, burst: &burst{t: t, rest: "; each is in the log file"}, level: level}
}

// LinesAlone is Lines for a process that has no log file beside them.
func (t *Terminal) LinesAlone(level slog.Leveler) *Lines {
	return &Lines{t: t, burst: &burst{t: t}, level: level}
}

// Flush shows what the second that runs has added up so far.
func (l *Lines) Flush() { l.burst.show() }

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

// Handle implements slog.Handler.
func (l *Lines) Handle(_ context.Context, r slog.Record) error {
	if l.group == "" && l.burst.takes(r) {
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
		line += l.t.style(level(r.Level), colourOf(r.Level)) + r.Message
		for _, a := range attrs {
			line += " " + l.t.style(a.Key+"=", dim) + text(a.Value)
		}
	}
	l.t.print(line + "\n")
	return nil
}

// success is operation.Succeed. To import that links the store and AWS's SDK into whatever prints a line.
const success = "success"

// succeeded reports whether an attribute tells of work that did, as operations
// do. A request's status is a number.
func succeeded(a slog.Attr) bool {
	return a.Key == "status" && a.Value.Resolve().String() == success
}

// request shows a request's record, if it is one. The rest of what it holds is
// in the log file.
func (l *Lines) request(attrs []slog.Attr) (string, bool) {
	find := finder(attrs)
	method, ok1 := find("method")
	path, ok2 := find("path")
	status, ok3 := find("status")
	if !ok1 || !ok2 || !ok3 || status.Kind() != slog.KindInt64 {
		return "", false
	}
	code := status.Int64()
	out := l.t.style(status.String(), colourOfStatus(int(code))) + " " + text(method) + " "
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

func colourOfStatus(code int) string {
	switch {
	case code >= 500:
		return red
	case code >= 400:
		return yellow
	}
	return green
}

// operation shows the record of the end of a durable operation that has failed, if it is
// one: of what kind it was and what about, and why.
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

// finder looks an attribute up.
func finder(attrs []slog.Attr) func(key string) (slog.Value, bool) {
	return func(key string) (slog.Value, bool) {
		i := slices.IndexFunc(attrs, func(a slog.Attr) bool { return a.Key == key })
		if i < 0 {
			return slog.Value{}, false
		}
		return attrs[i].Value.Resolve(), true
	}
}

// latency is how long it took, with a space before it, "" where the record does not say.
func (l *Lines) latency(find func(string) (slog.Value, bool)) string {
	ms, ok := find("latency")
	if !ok || ms.Kind() != slog.KindFloat64 && ms.Kind() != slog.KindInt64 {
		return ""
	}
	return " " + l.t.style(short(milliseconds(ms)), dim)
}

// milliseconds reads a number of them, 0 from what is none.
func milliseconds(v slog.Value) time.Duration {
	switch v.Kind() { //nolint:exhaustive // no other kind is a number
	case slog.KindFloat64:
		return time.Duration(v.Float64() * float64(time.Millisecond))
	case slog.KindInt64: // a function's line was text in between
		return time.Duration(v.Int64()) * time.Millisecond
	}
	return 0
}

// short rounds a duration to what a person compares.
func short(d time.Duration) string {
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

func colourOf(l slog.Level) string {
	if l >= slog.LevelError {
		return red
	}
	return yellow
}

// maxText is how much of a value is shown.
const maxText = 300

// text is the first line of a value, on one line: a stack is for the log file,
// and what a client sent must not write to the terminal.
func text(v slog.Value) string {
	s, more, _ := strings.Cut(v.Resolve().String(), "\n")
	if len(s) > maxText {
		s, more = strings.ToValidUTF8(s[:maxText], ""), "…"
	}
	if more != "" {
		s += "…"
	}
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '"' }) {
		return fmt.Sprintf("%q", s)
	}
	return s
}
