package counts

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pace says when an instance writes that has no time of its own: a Lambda is frozen between two requests, and nobody knows whether there will be
// another. The first burst requests are written one by one, so that what is seldom called is seen at once. From then on it is a write for every
// interval or for every callsPerWrite requests, whichever comes first.
type pace struct {
	calls atomic.Int64 // since the last write

	mu     sync.Mutex
	tokens float64
	at     time.Time // when tokens were last given
}

const (
	burst         = 10
	callsPerWrite = 100
)

// due reports whether it is time to write, and takes a token if it is.
func (p *pace) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls.Load()
	if calls == 0 {
		return false
	}
	p.tokens += max(now.Sub(p.at), 0).Seconds() / writeInterval.Seconds()
	p.at = now
	p.tokens = min(p.tokens, burst)
	switch {
	case p.tokens >= 1:
		p.tokens--
	case calls < callsPerWrite:
		return false
	default:
		p.tokens = 0 // the interval begins anew: at load, no write has fewer calls
	}
	p.calls.Add(-calls)
	return true
}

// FlushWhenDue writes what was counted, if it is time to. A Lambda calls it before an invocation ends, and waits for it: whatever is on its way
// then is frozen with the process.
func (c *Collector) FlushWhenDue(ctx context.Context) {
	if c.pace.due(c.now()) {
		c.report(ctx, c.flushWithin(ctx, lastWrite))
	}
}
