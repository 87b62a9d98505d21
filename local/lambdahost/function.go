package lambdahost

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// idleTime is how long a process without calls is kept.
const idleTime = 5 * time.Minute

// Function is a function and its processes.
type Function struct {
	host *Host
	spec Spec
	room chan struct{} // a place for each process that may run

	mu     sync.Mutex
	closed bool
	idle   []*process // the one that was used last is at the end
	all    map[*process]struct{}
	starts int
}

var _ lambda.Handler = (*Function)(nil)

// Starts says how many processes were started so far: the cold starts.
func (f *Function) Starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// outcome is how a call ended.
type outcome struct {
	answer []byte
	err    error
}

// Invoke calls the function and gives its answer. The call's id is that of the
// context's lambdacontext, or a new one. What the function answers as an error,
// and what goes wrong with its process, is a *FunctionError. When ctx ends
// first, the function goes on, as it does when a client of Lambda goes away.
func (f *Function) Invoke(ctx context.Context, event []byte) ([]byte, error) {
	if len(event) > MaxEventBytes {
		return nil, ErrEventTooLarge
	}
	id := ""
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		id = lc.AwsRequestID
	}
	if id == "" {
		id = f.host.o.IDs.UUID()
	}
	trace, err := f.host.trace()
	if err != nil {
		return nil, err
	}
	select {
	case f.room <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a process of %s: %w", f.spec.Name, context.Cause(ctx))
	}
	call := &invocation{id: id, event: event, trace: trace, ended: make(chan outcome, 1)}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-f.room }()
		done <- f.run(context.WithoutCancel(ctx), call)
	}()
	select {
	case out := <-done:
		return out.answer, out.err
	case <-ctx.Done():
		return nil, fmt.Errorf("call %s: %w", f.spec.Name, context.Cause(ctx))
	}
}

// trace makes the value of an X-Ray trace header that nobody samples.
func (h *Host) trace() (string, error) {
	var random [20]byte
	if _, err := io.ReadFull(h.o.Random, random[:]); err != nil {
		return "", fmt.Errorf("make a trace id: %w", err)
	}
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0", h.o.Now().Unix(),
		hex.EncodeToString(random[:12]), hex.EncodeToString(random[12:])), nil
}

// run has a process answer the call, a new one if none is idle.
func (f *Function) run(ctx context.Context, call *invocation) outcome {
	for {
		p, fresh, err := f.take(ctx)
		if err != nil {
			return outcome{err: err}
		}
		if fresh {
			if err := p.initialise(ctx); err != nil {
				f.drop(p)
				return outcome{err: err}
			}
		}
		out, alive := p.answer(ctx, call)
		if errors.Is(out.err, errExited) {
			f.drop(p)
			if fresh {
				return outcome{err: p.ended(call)}
			}
			continue // it had ended before it heard of the call
		}
		if alive {
			f.release(p)
		} else {
			f.drop(p)
		}
		return out
	}
}

// take returns an idle process, or starts one.
func (f *Function) take(ctx context.Context) (p *process, fresh bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, false, ErrClosed
	}
	if n := len(f.idle); n > 0 {
		p, f.idle = f.idle[n-1], f.idle[:n-1]
		p.retire.Stop()
		return p, false, nil
	}
	if p, err = f.start(ctx); err != nil {
		return nil, false, err
	}
	if f.all == nil {
		f.all = make(map[*process]struct{})
	}
	f.all[p] = struct{}{}
	f.starts++
	return p, true, nil
}

// release puts a process by for the next call.
func (f *Function) release(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.idle = append(f.idle, p)
	p.retire = time.AfterFunc(idleTime, func() { f.retire(p) })
}

// retire ends a process that is idle still.
func (f *Function) retire(p *process) {
	f.mu.Lock()
	found := false
	for i := range f.idle {
		if f.idle[i] == p {
			f.idle, found = append(f.idle[:i:i], f.idle[i+1:]...), true
			break
		}
	}
	f.mu.Unlock()
	if found {
		p.end()
		f.drop(p)
	}
}

// drop ends a process for good.
func (f *Function) drop(p *process) {
	p.kill()
	f.mu.Lock()
	delete(f.all, p)
	f.mu.Unlock()
}

func (f *Function) close() {
	f.mu.Lock()
	f.closed = true
	var all []*process
	for p := range f.all {
		all = append(all, p)
	}
	for _, p := range f.idle {
		p.retire.Stop()
	}
	f.mu.Unlock()
	var ending sync.WaitGroup
	for _, p := range all {
		ending.Go(p.end)
	}
	ending.Wait()
}

// arn is the function's name in events and contexts.
func (f *Function) arn() string {
	return "arn:aws:lambda:" + f.host.o.Region + ":000000000000:function:" + f.spec.Name
}

// logStream is what the environment of a function names as its log.
func (f *Function) logStream(address string) string {
	sum := sha256.Sum256([]byte(f.spec.Name + address))
	return f.host.o.Now().UTC().Format("2006/01/02") + "/[$LATEST]" + hex.EncodeToString(sum[:16])
}
