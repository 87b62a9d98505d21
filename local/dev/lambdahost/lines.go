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

// maxLine is the maximum length of a line in bytes. A longer line is split.
const maxLine = 64 << 10

// lineLogger writes the output of a process to a log, line by line. A line that
// is a JSON record of package slog keeps its level, message and attributes.
type lineLogger struct {
	log *slog.Logger

	mu     sync.Mutex
	buffer []byte
}

// Write implements io.Writer. It never fails.
func (l *lineLogger) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buffer = append(l.buffer, p...)
	for {
		i := bytes.IndexByte(l.buffer, '\n')
		if i < 0 && len(l.buffer) < maxLine {
			return len(p), nil
		}
		if i < 0 || i >= maxLine {
			i = maxLine - 1
		}
		l.logLine(l.buffer[:i+1])
		l.buffer = l.buffer[i+1:]
	}
}

// flush logs the last line if it has no line end.
func (l *lineLogger) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logLine(l.buffer)
	l.buffer = nil
}

func (l *lineLogger) logLine(line []byte) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return
	}
	level, message, attrs := parseRecord(line)
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

// parseRecord parses a line of slog's JSON handler. For any other line, it returns the message "".
func parseRecord(line []byte) (level slog.Level, message string, attrs []any) {
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
			attrs = append(attrs, slog.Any(name, originalValue(name, record[name])))
		}
	}
	return level, message, attrs
}

// originalValue converts a number to a time.Duration if its name is duration, and otherwise to int64 or float64. It
// returns other values unchanged.
func originalValue(name string, v any) any {
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
