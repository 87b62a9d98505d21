package lambdahost

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/local/processes"
)

// errExited says that a process ended before it took a call.
var errExited = errors.New("the process is gone")

// invocation is one call.
type invocation struct {
	id       string
	event    []byte
	trace    string
	deadline time.Time
	ended    chan outcome // has room for one
}

// end tells the first outcome; later ones don't matter.
func (i *invocation) end(o outcome) {
	select {
	case i.ended <- o:
	default:
	}
}

// process is a running bootstrap. One call at a time uses it.
type process struct {
	f       *Function
	pid     int
	address string // of its Runtime API
	server  *http.Server
	retire  *time.Timer

	polled  chan struct{}    // gets one for each poll that waits
	calls   chan *invocation // what a poll is answered with
	failed  chan outcome     // why its init failed
	exited  chan struct{}
	exit    error // valid once exited is closed
	initFor time.Duration

	extended atomic.Bool // whether it has an extension

	mu      sync.Mutex
	current *invocation
}

// start starts the function's bootstrap with a Runtime API of its own.
func (f *Function) start(ctx context.Context) (*process, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", f.spec.Name, err)
	}
	p := &process{
		f: f, address: l.Addr().String(),
		polled: make(chan struct{}, 1), calls: make(chan *invocation),
		failed: make(chan outcome, 1), exited: make(chan struct{}),
	}
	p.server = &http.Server{Handler: p.api(), ReadHeaderTimeout: time.Minute}
	go func() { _ = p.server.Serve(l) }()
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		_ = p.server.Close()
		return nil, fmt.Errorf("start %s: %w", f.spec.Name, err)
	}
	return p, nil
}

// run runs the process to its end. It holds its thread for all that time: the
// kernel kills the process when the thread that started it is gone
// (prctl(2), PR_SET_PDEATHSIG), which is how no function outlives its host.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	output := &lines{log: p.f.host.o.Log.With("function", p.f.spec.Name)}
	cmd := exec.Command(p.f.spec.Bootstrap) //nolint:gosec,noctx // G204: a function of ours; its end is kill's
	cmd.Dir = filepath.Dir(p.f.spec.Bootstrap)
	cmd.Env = p.f.environment(p.address)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = processes.Bound()
	cmd.WaitDelay = time.Second // what it started may hold its output open
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	started <- nil
	err := cmd.Wait()
	output.flush()
	if err == nil {
		err = errors.New("exit status 0")
	}
	p.exit = err
	_ = p.server.Close()
	close(p.exited)
}

// kill ends the process and all that it started, and waits until it is gone.
func (p *process) kill() {
	_ = processes.Kill(p.pid)
	<-p.exited
}

// lastWords is how long a process with an extension has between SIGTERM and SIGKILL.
const lastWords = 500 * time.Millisecond

// end ends the process when it is not needed any more. One with an extension hears of it.
func (p *process) end() {
	if p.extended.Load() {
		p.thaw()
		if terminate(p.pid) == nil {
			select {
			case <-p.exited:
			case <-time.After(lastWords):
			}
		}
	}
	p.kill()
}

// initialise waits for the process's first poll.
func (p *process) initialise(ctx context.Context) error {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	memory, over := p.watch()
	defer memory.stop()
	select {
	case <-p.polled:
		p.initFor = time.Since(started)
		return nil
	case out := <-p.failed:
		return out.err
	case <-over:
		return p.tooMuch(memory)
	case <-p.exited:
		select {
		case out := <-p.failed: // it said why
			return out.err
		default:
		}
		return &FunctionError{typeExit, "Runtime exited with error: " + p.exit.Error()}
	case <-ctx.Done():
		return &FunctionError{typeInit, fmt.Sprintf("The function did not ask for an event within %s.", initTimeout)}
	}
}

// answer hands the call over and waits for its end. The process may be used
// again when it is alive.
func (p *process) answer(ctx context.Context, call *invocation) (out outcome, alive bool) {
	p.thaw()
	timeout := p.f.spec.Timeout
	begun := time.Now()
	call.deadline = p.f.host.o.Now().Add(timeout)
	p.setCurrent(call)
	defer p.setCurrent(nil)
	memory, over := p.watch()
	defer func() {
		memory.stop()
		p.report(ctx, call, time.Since(begun), memory.peakKB(), out)
	}()

	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case p.calls <- call:
	case <-p.exited:
		return outcome{err: errExited}, false
	case <-limit.C:
		return p.timeout(call, timeout), false
	}
	select {
	case out = <-call.ended:
	case <-p.exited:
		select {
		case out = <-call.ended: // it answered, and then ended
			return out, false
		default:
		}
		return outcome{err: p.ended(call)}, false
	case <-over:
		return outcome{err: p.tooMuch(memory)}, false
	case <-limit.C:
		return p.timeout(call, timeout), false
	}
	// A call is over for the next one when the process asks for it.
	select {
	case <-p.polled:
		p.freeze()
		return out, true
	case <-p.exited:
	case <-limit.C:
	}
	return out, false
}

// ended is the failure of a call whose process has ended.
func (p *process) ended(call *invocation) error {
	return &FunctionError{typeExit, "RequestId: " + call.id + " Error: Runtime exited with error: " + p.exit.Error()}
}

func (p *process) timeout(call *invocation, after time.Duration) outcome {
	return outcome{err: &FunctionError{typeTimeout, fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds", call.id, after.Seconds())}}
}

func (p *process) tooMuch(m *memory) error {
	return &FunctionError{typeMemory, fmt.Sprintf("The function held %d MB and may hold %d MB.", m.peakKB()>>10, p.f.spec.MemoryMB)}
}

// freeze stops the process until the next call: what it leaves running in the
// background does not run, as in Lambda.
func (p *process) freeze() { _ = freeze(p.pid) }

func (p *process) thaw() { _ = thaw(p.pid) }

func (p *process) setCurrent(call *invocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = call
}

// called returns the call that is under way if its id is this one.
func (p *process) called(id string) (*invocation, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.current != nil && p.current.id == id
}

// report logs the end of a call, with what Lambda's REPORT line holds.
func (p *process) report(ctx context.Context, call *invocation, took time.Duration, peakKB int64, out outcome) {
	if errors.Is(out.err, errExited) {
		return
	}
	attrs := []slog.Attr{
		slog.String("function", p.f.spec.Name), slog.String("requestId", call.id),
		slog.Duration("duration", took), slog.Int64("memoryMb", peakKB>>10), slog.Int("memoryLimitMb", p.f.spec.MemoryMB),
	}
	if p.initFor > 0 {
		attrs = append(attrs, slog.Duration("initDuration", p.initFor))
		p.initFor = 0
	}
	level := slog.LevelDebug
	if out.err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", out.err))
	}
	p.f.host.o.Log.LogAttrs(ctx, level, "call", attrs...)
}

// environment is all that the process finds in its environment.
func (f *Function) environment(runtimeAPI string) []string {
	o := f.host.o
	env := []string{
		"AWS_LAMBDA_RUNTIME_API=" + runtimeAPI,
		"AWS_LAMBDA_FUNCTION_NAME=" + f.spec.Name,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=" + strconv.Itoa(f.spec.MemoryMB),
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + f.spec.Name,
		"AWS_LAMBDA_LOG_STREAM_NAME=" + f.logStream(runtimeAPI),
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_EXECUTION_ENV=AWS_Lambda_provided.al2023",
		"AWS_REGION=" + o.Region,
		"AWS_DEFAULT_REGION=" + o.Region,
		"AWS_ACCESS_KEY_ID=" + o.Credentials.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + o.Credentials.SecretAccessKey,
		"LAMBDA_TASK_ROOT=" + filepath.Dir(f.spec.Bootstrap),
		"LAMBDA_RUNTIME_DIR=/var/runtime",
		"_HANDLER=bootstrap",
		"LANG=en_US.UTF-8",
		"TZ=:UTC",
		"PATH=/usr/local/bin:/usr/bin/:/bin",
	}
	if o.Credentials.SessionToken != "" {
		env = append(env, "AWS_SESSION_TOKEN="+o.Credentials.SessionToken)
	}
	for name, value := range f.spec.Env {
		env = append(env, name+"="+value)
	}
	return env
}
