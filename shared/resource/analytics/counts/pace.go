package counts

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// pacer decides when an instance that cannot run in the background writes its counts. A Lambda is frozen between two
// requests, and the next request may never come. The first maxBurst requests are written one by one, so that rare calls
// become visible immediately: each of these writes takes a token. After that, the instance writes when a new token is
// there, which takes a writeInterval, or when callsPerWrite requests are waiting. An idle instance collects up to
// maxBurst tokens.
type pacer struct {
	calls atomic.Int64 // since the last write

	mu         sync.Mutex
	tokens     float64
	refilledAt time.Time // when tokens were last added
}

const (
	maxBurst      = 10
	callsPerWrite = 100
)

// due adds the tokens since the last call, and reports whether the instance should write now. If it should, due takes
// a token and sets the number of waiting calls to 0, except for calls that are counted meanwhile.
func (p *pacer) due(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	calls := p.calls.Load()
	if calls == 0 {
		return false
	}
	p.tokens += max(now.Sub(p.refilledAt), 0).Seconds() / writeInterval.Seconds()
	p.refilledAt = now
	p.tokens = min(p.tokens, maxBurst)
	switch {
	case p.tokens >= 1:
		p.tokens--
	case calls < callsPerWrite:
		return false
	default:
		p.tokens = 0 // under load, each write has at least callsPerWrite calls
	}
	p.calls.Add(-calls)
	return true
}

// FlushWhenDue writes the counts if a write is due. A Lambda calls it before an invocation
// ends and waits for it, because a write in progress would be frozen with the process.
func (c *Collector) FlushWhenDue(ctx context.Context) {
	if c.pacer.due(c.now()) {
		c.logResult(ctx, c.flushWithTimeout(ctx, shutdownTimeout))
	}
}
