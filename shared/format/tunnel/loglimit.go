package tunnel

import (
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Limits for log lines about events that others can cause at any rate: at most
// LogBurst lines at once, and on average at most one line per LogInterval.
const (
	LogInterval = time.Second
	LogBurst    = 20
)

// LogLimiter limits the number of log lines about one kind of event. It is safe for concurrent use.
type LogLimiter struct {
	limiter    *rate.Limiter
	suppressed atomic.Int64 // number of events without a line since the last line
}

// NewLogLimiter returns a LogLimiter that has not limited any lines yet.
func NewLogLimiter() *LogLimiter {
	return &LogLimiter{limiter: rate.NewLimiter(rate.Every(LogInterval), LogBurst)}
}

// Allow reports whether the current event gets a log line. suppressed is an attribute with the
// number of events without a line since the last line. It is empty if there were no such events.
func (l *LogLimiter) Allow(now time.Time) (suppressed slog.Attr, ok bool) {
	if !l.limiter.AllowN(now, 1) {
		l.suppressed.Add(1)
		return slog.Attr{}, false
	}
	if n := l.suppressed.Swap(0); n > 0 {
		suppressed = slog.Int64("untold", n)
	}
	return suppressed, true
}
