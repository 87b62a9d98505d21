package terminal

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// readable is how many requests in a second are shown one by one. Of more nobody reads, and each costs what a request does.
const readable = 20

// burst adds up the gateway's requests while there are more than readable in a second, and shows a line for each second.
type burst struct {
	t *Terminal
	// rest is what a line says of the requests that it adds up: where they are.
	rest string

	mu     sync.Mutex
	second time.Time
	// requests are those of the second, and busy is whether there were too many in the one before: then none is shown alone.
	requests int
	busy     bool
	sum      sum
}

// sum is what a line tells of the requests of a second that were not shown.
type sum struct {
	requests int
	classes  [6]int // by the first digit of their status
	slowest  time.Duration
	end      *time.Timer
}

// takes adds a request up, if it is one that is not shown by itself. Why one has failed is told by lines of their own.
func (b *burst) takes(r slog.Record) bool {
	if r.Message != "request" {
		return false
	}
	status, latency, host := 0, time.Duration(0), false
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case "host":
			host = true
		case "status":
			if a.Value.Kind() == slog.KindInt64 {
				status = int(a.Value.Int64())
			}
		case "latency":
			latency = milliseconds(a.Value)
		}
		return true
	})
	if !host || status < 100 || status > 599 { // of the management API, or none
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if second := r.Time.Truncate(time.Second); !second.Equal(b.second) {
		b.busy = b.requests > readable && second.Equal(b.second.Add(time.Second))
		b.second, b.requests = second, 0
	}
	b.requests++
	if !b.busy && b.requests <= readable {
		return false
	}
	if b.sum.requests == 0 {
		b.sum.end = time.AfterFunc(time.Until(b.second.Add(time.Second)), b.show)
	}
	b.sum.requests++
	b.sum.classes[status/100]++
	b.sum.slowest = max(b.sum.slowest, latency)
	return true
}

// show shows what has been added up, if anything has.
func (b *burst) show() {
	b.mu.Lock()
	s, at := b.sum, b.second
	b.sum = sum{}
	b.mu.Unlock()
	if s.requests == 0 {
		return
	}
	s.end.Stop()
	var classes []string
	for class, n := range s.classes {
		if n > 0 {
			classes = append(classes, fmt.Sprintf("%s %d", b.t.style(fmt.Sprintf("%dxx", class), colourOfStatus(class*100)), n))
		}
	}
	b.t.print(fmt.Sprintf("%s %d more requests through the gateway in this second: %s%s\n",
		b.t.style(at.Format(time.TimeOnly), dim), s.requests, strings.Join(classes, ", "), b.t.style("; the slowest took "+short(s.slowest)+b.rest, dim)))
}
