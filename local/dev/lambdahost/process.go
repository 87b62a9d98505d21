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

	"github.com/gatewright/gatewright/shared/base/processes"
)

// errExited means that a process had ended before it received a call.
var errExited = errors.New("the process is gone")

// invocation is a call of a function.
type invocation struct {
	id       string
	event    []byte
	trace    string
	deadline time.Time
	done     chan outcome // has a capacity of one
}

// finish sets the outcome of the call. It ignores all outcomes after the first.
func (i *invocation) finish(o outcome) {
	select {
	case i.done <- o:
	default:
	}
}

// process is a running process of a function. It handles one call at a time.
type process struct {
	f       *Function
	pid     int
	address string // the address of the process's Runtime API
	server  *http.Server
	retire  *time.Timer

	polled       chan struct{}    // receives a value when the process requests its next event
	calls        chan *invocation // the calls that are sent as responses to these requests
	initFailed   chan outcome     // receives the error if the initialization fails
	exited       chan struct{}    // closed when the process has ended
	exitErr      error            // valid once exited is closed
	initDuration time.Duration    // 0 after report has logged it

	hasExtension atomic.Bool // whether an extension has registered

	mu      sync.Mutex
	current *invocation
}

// start starts a process of the function, with its own Runtime API.
func (f *Function) start(ctx context.Context) (*process, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", f.spec.Name, err)
	}
	p := &process{
		f: f, address: l.Addr().String(),
		polled: make(chan struct{}, 1), calls: make(chan *invocation),
		initFailed: make(chan outcome, 1), exited: make(chan struct{}),
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

// run runs the process until it ends. On Linux, the kernel kills the process when the thread that started it ends
// (prctl(2), PR_SET_PDEATHSIG), so that no function outlives its host. run locks its thread, because Go could end the
// thread earlier.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	output := &lineLogger{log: p.f.host.o.Log.With("function", p.f.spec.Name)}
	cmd := exec.Command(p.f.spec.Bootstrap) //nolint:gosec,noctx // G204: a function of ours, which kill ends
	cmd.Dir = filepath.Dir(p.f.spec.Bootstrap)
	cmd.Env = p.f.environment(p.address)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = processes.KillWithParent()
	cmd.WaitDelay = time.Second // limits the wait for child processes that keep the output open
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
	p.exitErr = err
	_ = p.server.Close()
	close(p.exited)
}

// kill kills the process and its children, and waits until it has ended.
func (p *process) kill() {
	_ = processes.Kill(p.pid)
	<-p.exited
}

// terminateTimeout is the time between SIGTERM and SIGKILL for a process with an extension.
const terminateTimeout = 500 * time.Millisecond

// shutDown ends a process that is no longer needed. A process with an extension receives SIGTERM first.
func (p *process) shutDown() {
	if p.hasExtension.Load() {
		p.thaw()
		if terminate(p.pid) == nil {
			select {
			case <-p.exited:
			case <-time.After(terminateTimeout):
			}
		}
	}
	p.kill()
}

// initialize waits until the process requests its first event. It returns an error if the process ends or reports an
// error before, exceeds its memory limit, or needs more than initTimeout.
func (p *process) initialize(ctx context.Context) error {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, initTimeout)
	defer cancel()
	memory, exceeded := p.watchMemory()
	defer memory.stop()
	select {
	case <-p.polled:
		p.initDuration = time.Since(started)
		return nil
	case out := <-p.initFailed:
		return out.err
	case <-exceeded:
		return p.memoryError(memory)
	case <-p.exited:
		select {
		case out := <-p.initFailed: // the process reported why
			return out.err
		default:
		}
		return &FunctionError{typeExit, "Runtime exited with error: " + p.exitErr.Error()}
	case <-ctx.Done():
		return &FunctionError{typeInit, fmt.Sprintf("The function did not ask for an event within %s.", initTimeout)}
	}
}

// serve passes the call to the process and waits for the outcome.
// If alive is true, the process can handle another call.
func (p *process) serve(ctx context.Context, call *invocation) (out outcome, alive bool) {
	p.thaw()
	timeout := p.f.spec.Timeout
	start := time.Now()
	call.deadline = p.f.host.o.Now().Add(timeout)
	p.setCurrent(call)
	defer p.setCurrent(nil)
	memory, exceeded := p.watchMemory()
	defer func() {
		memory.stop()
		p.report(ctx, call, time.Since(start), memory.peakKB(), out)
	}()

	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case p.calls <- call:
	case <-p.exited:
		return outcome{err: errExited}, false
	case <-limit.C:
		return p.timeoutError(call, timeout), false
	}
	select {
	case out = <-call.done:
	case <-p.exited:
		select {
		case out = <-call.done: // the process ended after its response
			return out, false
		default:
		}
		return outcome{err: p.exitError(call)}, false
	case <-exceeded:
		return outcome{err: p.memoryError(memory)}, false
	case <-limit.C:
		return p.timeoutError(call, timeout), false
	}
	// The process is ready for another call when it requests its next event.
	select {
	case <-p.polled:
		p.freeze()
		return out, true
	case <-p.exited:
	case <-limit.C:
	}
	return out, false
}

// exitError returns the error of a call whose process has ended.
func (p *process) exitError(call *invocation) error {
	return &FunctionError{typeExit, "RequestId: " + call.id + " Error: Runtime exited with error: " + p.exitErr.Error()}
}

func (p *process) timeoutError(call *invocation, limit time.Duration) outcome {
	return outcome{err: &FunctionError{typeTimeout, fmt.Sprintf("RequestId: %s Error: Task timed out after %.2f seconds",
		call.id, limit.Seconds())}}
}

func (p *process) memoryError(m *memorySampler) error {
	return &FunctionError{typeMemory, fmt.Sprintf("The function held %d MB and may hold %d MB.", m.peakKB()>>10,
		p.f.spec.MemoryMB)}
}

// freeze suspends the process until the next call. As in Lambda, its background work pauses too.
func (p *process) freeze() { _ = freeze(p.pid) }

func (p *process) thaw() { _ = thaw(p.pid) }

func (p *process) setCurrent(call *invocation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current = call
}

// currentCall returns the current call, and reports whether its ID is id.
func (p *process) currentCall(id string) (*invocation, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current, p.current != nil && p.current.id == id
}

// report logs the end of a call, with the values of Lambda's REPORT line.
func (p *process) report(ctx context.Context, call *invocation, elapsed time.Duration, peakKB int64, out outcome) {
	if errors.Is(out.err, errExited) {
		return
	}
	attrs := []slog.Attr{
		slog.String("function", p.f.spec.Name), slog.String("requestId", call.id),
		slog.Duration("duration", elapsed), slog.Int64("memoryMb", peakKB>>10), slog.Int("memoryLimitMb", p.f.spec.MemoryMB),
	}
	if p.initDuration > 0 {
		attrs = append(attrs, slog.Duration("initDuration", p.initDuration))
		p.initDuration = 0
	}
	level := slog.LevelDebug
	if out.err != nil {
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", out.err))
	}
	p.f.host.o.Log.LogAttrs(ctx, level, "call", attrs...)
}

// environment returns the complete environment of the process.
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
