package tunnel

import (
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// What others do as often as they like has LinesAtOnce lines in a log after a time of quiet, and in the
// long run one in LineEvery.
const (
	LineEvery   = time.Second
	LinesAtOnce = 20
)

// Lines bounds how many lines a log has of one thing. It is safe for concurrent use.
type Lines struct {
	limiter *rate.Limiter
	untold  atomic.Int64 // those without a line since the last one
}

// NewLines makes Lines.
func NewLines() *Lines { return &Lines{limiter: rate.NewLimiter(rate.Every(LineEvery), LinesAtOnce)} }

// Next reports whether what happens now has a line, and how many before it have had none: no attribute
// where there were none.
func (l *Lines) Next(now time.Time) (untold slog.Attr, ok bool) {
	if !l.limiter.AllowN(now, 1) {
		l.untold.Add(1)
		return slog.Attr{}, false
	}
	if n := l.untold.Swap(0); n > 0 {
		untold = slog.Int64("untold", n)
	}
	return untold, true
}
