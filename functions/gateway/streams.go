package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/limits/slots"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
)

// newStreams returns the counter of a gateway's streams, and the time after which a request counts as a stream, or 0 if
// no request becomes a stream by its duration. In a Lambda that streams responses, the counter counts the streams of
// all processes, because each process has only one request at a time. Otherwise, it counts the streams of this process.
// A Lambda that does not stream responses also gets a counter of this process, which counts nothing.
func newStreams(p installation.Parts, function bool) (streams gateway.Streams, threshold time.Duration) {
	if !function || !p.Config.Streaming {
		return gateway.NewProcessStreams(p.Config.Limits.Get(limits.GatewayStreams)), 0
	}
	slotCounter := slots.New(slots.Options{
		Table: p.Table, Now: p.Now, Name: p.IDs.UUID,
		Limit: limits.FunctionStreams, Max: p.Config.Limits.Get(limits.FunctionStreams),
	})
	// Without streaming, a request can take as long as the function's timeout. So a request counts as a stream only after
	// this time.
	return functionStreams{slotCounter, p.Now, p.Log}, Function.Timeout
}

// functionStreams counts the streams of accounts in Lambdas. Each stream has a slot, which it holds at most until the
// deadline of its invocation.
type functionStreams struct {
	slots *slots.Slots
	now   func() time.Time
	log   *slog.Logger
}

const (
	// maxInvocation is the maximum duration of an invocation in AWS. Begin uses it if ctx has no deadline.
	maxInvocation = 15 * time.Minute
	// acquireTimeout is the maximum time for which a stream waits for its slot. After this time, the stream continues
	// without a slot and is not counted. Without the timeout, the gateway would retry an unresponsive table for as long as
	// the client waits.
	acquireTimeout = 2 * time.Second
	// releaseTimeout is the timeout for releasing the slot of a stream. A slot that is not released becomes free at the
	// deadline of the invocation.
	releaseTimeout = 2 * time.Second
)

// Begin implements gateway.Streams.
func (s functionStreams) Begin(ctx context.Context, account string) (done func(), refusal *fault.Fault, err error) {
	remaining := maxInvocation
	if deadline, ok := ctx.Deadline(); ok {
		remaining = time.Until(deadline)
	}
	acquireCtx, cancel := context.WithTimeout(ctx, acquireTimeout)
	defer cancel()
	release, refusal, err := s.slots.Take(acquireCtx, account, s.now().Add(remaining))
	if release == nil {
		return nil, refusal, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
		defer cancel()
		if err := release(ctx); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "the end of a stream was not written", slog.String("account", account),
				slog.Any("error", err))
		}
	}, nil, err
}
