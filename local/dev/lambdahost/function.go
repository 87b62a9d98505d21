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

// idleTimeout is the time without calls after which a process is ended.
const idleTimeout = 5 * time.Minute

// Function is a function and its processes.
type Function struct {
	host  *Host
	spec  Spec
	slots chan struct{} // limits the number of running processes

	mu     sync.Mutex
	closed bool
	idle   []*process // the most recently used process is last
	all    map[*process]struct{}
	starts int
}

var _ lambda.Handler = (*Function)(nil)

// Starts returns the number of processes that were started so far: the cold starts.
func (f *Function) Starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// outcome is the result of a call.
type outcome struct {
	response []byte
	err      error
}

// Invoke calls the function and returns its response. The ID of the call is the request ID of the context's
// lambdacontext, or a new ID. If the function returns an error or its process fails, the error is a *FunctionError. If
// ctx ends while Invoke waits for a process, the function is not called. If ctx ends during the call, Invoke returns,
// but the call continues, as it does when a client of Lambda disconnects.
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
	case f.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a process of %s: %w", f.spec.Name, context.Cause(ctx))
	}
	call := &invocation{id: id, event: event, trace: trace, done: make(chan outcome, 1)}
	done := make(chan outcome, 1)
	go func() {
		defer func() { <-f.slots }()
		done <- f.run(context.WithoutCancel(ctx), call)
	}()
	select {
	case out := <-done:
		return out.response, out.err
	case <-ctx.Done():
		return nil, fmt.Errorf("call %s: %w", f.spec.Name, context.Cause(ctx))
	}
}

// trace returns the value of an X-Ray trace header for a new trace that is not sampled.
func (h *Host) trace() (string, error) {
	var random [20]byte
	if _, err := io.ReadFull(h.o.Random, random[:]); err != nil {
		return "", fmt.Errorf("make a trace id: %w", err)
	}
	return fmt.Sprintf("Root=1-%08x-%s;Parent=%s;Sampled=0", h.o.Now().Unix(),
		hex.EncodeToString(random[:12]), hex.EncodeToString(random[12:])), nil
}

// run passes the call to an idle process, or to a new one if none is idle.
func (f *Function) run(ctx context.Context, call *invocation) outcome {
	for {
		p, fresh, err := f.acquire(ctx)
		if err != nil {
			return outcome{err: err}
		}
		if fresh {
			if err := p.initialize(ctx); err != nil {
				f.drop(p)
				return outcome{err: err}
			}
		}
		out, alive := p.serve(ctx, call)
		if errors.Is(out.err, errExited) {
			f.drop(p)
			if fresh {
				return outcome{err: p.exitError(call)}
			}
			continue // the idle process had ended before it received the call: use another one
		}
		if alive {
			f.release(p)
		} else {
			f.drop(p)
		}
		return out
	}
}

// acquire returns an idle process. If there is none, it starts a process, and fresh is true.
func (f *Function) acquire(ctx context.Context) (p *process, fresh bool, err error) {
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

// release makes a process idle, for the next call.
func (f *Function) release(p *process) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.idle = append(f.idle, p)
	p.retire = time.AfterFunc(idleTimeout, func() { f.retire(p) })
}

// retire ends a process if it is still idle.
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
		p.shutDown()
		f.drop(p)
	}
}

// drop kills a process and removes it from f.
func (f *Function) drop(p *process) {
	p.kill()
	f.mu.Lock()
	delete(f.all, p)
	f.mu.Unlock()
}

// close ends all processes of the function. Calls after that fail with ErrClosed.
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
	var wg sync.WaitGroup
	for _, p := range all {
		wg.Go(p.shutDown)
	}
	wg.Wait()
}

// arn returns the function's ARN for events and contexts.
func (f *Function) arn() string {
	return "arn:aws:lambda:" + f.host.o.Region + ":000000000000:function:" + f.spec.Name
}

// logStream returns the name of the log stream of the process whose Runtime API has this address.
func (f *Function) logStream(address string) string {
	sum := sha256.Sum256([]byte(f.spec.Name + address))
	return f.host.o.Now().UTC().Format("2006/01/02") + "/[$LATEST]" + hex.EncodeToString(sum[:16])
}
