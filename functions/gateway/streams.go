package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/limits/slots"
)

// bound is what counts the streams of a gateway, and after which time a request is one. In a Lambda that streams they
// are counted over all processes, each of which has one request at a time; a Lambda that does not has none. Any other process
// knows its own.
func bound(p installation.Parts, function bool) (streams gateway.Streams, after time.Duration) {
	if !function || !p.Config.Streaming {
		return gateway.ProcessStreams(p.Config.Limits.Of(limits.GatewayStreams)), 0
	}
	counted := slots.New(slots.Options{
		Table: p.Table, Now: p.Now, Name: p.IDs.UUID,
		Limit: limits.FunctionStreams, Most: p.Config.Limits.Of(limits.FunctionStreams),
	})
	// Whatever an answer without streaming may take is a request's.
	return functionStreams{counted, p.Now, p.Log}, Function.Timeout
}

// functionStreams are the slots of an account, held for no longer than the invocation may go on.
type functionStreams struct {
	slots *slots.Slots
	now   func() time.Time
	log   *slog.Logger
}

const (
	// longestInvocation is AWS's.
	longestInvocation = 15 * time.Minute
	// takeTimeout bounds how long a stream waits to be counted, which passes uncounted then: a table that does not answer is asked
	// again for as long as a client waits.
	takeTimeout = 2 * time.Second
	// giveBackTimeout bounds how long the end of a stream waits to be written; a slot that is not given back is free when the
	// invocation would have ended.
	giveBackTimeout = 2 * time.Second
)

// Begin implements gateway.Streams.
func (s functionStreams) Begin(ctx context.Context, account string) (end func(), refusal *fault.Fault, err error) {
	left := longestInvocation
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	within, cancel := context.WithTimeout(ctx, takeTimeout)
	defer cancel()
	giveBack, refusal, err := s.slots.Take(within, account, s.now().Add(left))
	if giveBack == nil {
		return nil, refusal, err
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
		defer cancel()
		if err := giveBack(ctx); err != nil {
			s.log.LogAttrs(ctx, slog.LevelWarn, "the end of a stream was not written", slog.String("account", account), slog.Any("error", err))
		}
	}, nil, err
}
