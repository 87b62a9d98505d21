package lambdahost

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxLine bounds a line of output; the rest of a longer one is another line.
const maxLine = 64 << 10

// lines is the output of a process, which it passes on to a log line by line. A
// line that is a JSON record of package slog keeps its level, message and
// attributes.
type lines struct {
	log *slog.Logger

	mu   sync.Mutex
	rest []byte
}

// Write implements io.Writer. It never fails.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rest = append(l.rest, p...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 && len(l.rest) < maxLine {
			return len(p), nil
		}
		if i < 0 || i >= maxLine {
			i = maxLine - 1
		}
		l.pass(l.rest[:i+1])
		l.rest = l.rest[i+1:]
	}
}

// flush passes on a last line without an end.
func (l *lines) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pass(l.rest)
	l.rest = nil
}

func (l *lines) pass(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	level, message, attrs := recordOf(line)
	switch {
	case message == "":
		l.log.Info("output", "line", string(line))
	case level >= slog.LevelError:
		l.log.Error(message, attrs...) //nolint:sloglint // the function's own message
	case level >= slog.LevelWarn:
		l.log.Warn(message, attrs...) //nolint:sloglint // the function's own message
	case level >= slog.LevelInfo:
		l.log.Info(message, attrs...) //nolint:sloglint // the function's own message
	default:
		l.log.Debug(message, attrs...) //nolint:sloglint // the function's own message
	}
}

// recordOf reads a line that slog's JSON handler has written; the message is ""
// for another one.
func recordOf(line []byte) (level slog.Level, message string, attrs []any) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	var record map[string]any
	if decoder.Decode(&record) != nil {
		return 0, "", nil
	}
	message, _ = record[slog.MessageKey].(string)
	text, _ := record[slog.LevelKey].(string)
	if level.UnmarshalText([]byte(text)) != nil {
		level = slog.LevelInfo
	}
	for _, name := range slices.Sorted(maps.Keys(record)) {
		switch name {
		case slog.MessageKey, slog.LevelKey, slog.TimeKey:
		default:
			attrs = append(attrs, slog.Any(name, valueOf(name, record[name])))
		}
	}
	return level, message, attrs
}

// valueOf gives a value the kind it had before it was written.
func valueOf(name string, v any) any {
	number, ok := v.(json.Number)
	if !ok {
		return v
	}
	if i, err := number.Int64(); err == nil {
		if name == "duration" {
			return time.Duration(i)
		}
		return i
	}
	f, _ := number.Float64()
	return f
}
