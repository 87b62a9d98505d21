package terminal

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// maxLinesPerSecond is the maximum number of requests per second that are shown individually. People cannot read
// more, and printing a line takes as long as handling a request.
const maxLinesPerSecond = 20

// requestAggregator counts the gateway's requests that are not shown individually, because there are more than
// maxLinesPerSecond per second. It shows one summary line for them each second.
type requestAggregator struct {
	t *Terminal
	// suffix is the end of the summary line, which says that each request is in the log file. It is "" if there is no
	// log file.
	suffix string

	mu     sync.Mutex
	second time.Time
	// requests is the number of requests in this second. busy reports whether the second before it had more than
	// maxLinesPerSecond requests. In this case, no request is shown individually.
	requests int
	busy     bool
	summary  summary
}

// summary counts the requests of a second that were not shown individually. timer prints the summary at the end of
// that second.
type summary struct {
	requests int
	classes  [6]int // number of requests by the first digit of their status
	slowest  time.Duration
	timer    *time.Timer
}

// aggregate counts the request in r, and reports whether the request belongs to the summary line and must not be
// shown individually. The reason for a failed request is in a separate record, which is shown.
func (ra *requestAggregator) aggregate(r slog.Record) bool {
	if r.Message != "request" {
		return false
	}
	status, latency, hasHost := 0, time.Duration(0), false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "host":
			hasHost = true
		case "status":
			if a.Value.Kind() == slog.KindInt64 {
				status = int(a.Value.Int64())
			}
		case "latency":
			latency = milliseconds(a.Value)
		}
		return true
	})
	if !hasHost || status < 100 || status > 599 { // not a request through the gateway
		return false
	}
	ra.mu.Lock()
	defer ra.mu.Unlock()
	if second := r.Time.Truncate(time.Second); !second.Equal(ra.second) {
		ra.busy = ra.requests > maxLinesPerSecond && second.Equal(ra.second.Add(time.Second))
		ra.second, ra.requests = second, 0
	}
	ra.requests++
	if !ra.busy && ra.requests <= maxLinesPerSecond {
		return false
	}
	if ra.summary.requests == 0 {
		ra.summary.timer = time.AfterFunc(time.Until(ra.second.Add(time.Second)), ra.show)
	}
	ra.summary.requests++
	ra.summary.classes[status/100]++
	ra.summary.slowest = max(ra.summary.slowest, latency)
	return true
}

// show prints the summary line, if requests have been counted for it, and starts a new summary.
func (ra *requestAggregator) show() {
	ra.mu.Lock()
	s, at := ra.summary, ra.second
	ra.summary = summary{}
	ra.mu.Unlock()
	if s.requests == 0 {
		return
	}
	s.timer.Stop()
	var classes []string
	for class, n := range s.classes {
		if n > 0 {
			classes = append(classes, fmt.Sprintf("%s %d", ra.t.style(fmt.Sprintf("%dxx", class), statusColor(class*100)), n))
		}
	}
	ra.t.print(fmt.Sprintf("%s %d more requests through the gateway in this second: %s%s\n",
		ra.t.style(at.Format(time.TimeOnly), dim), s.requests, strings.Join(classes, ", "),
		ra.t.style("; the slowest took "+roundDuration(s.slowest)+ra.suffix, dim)))
}
