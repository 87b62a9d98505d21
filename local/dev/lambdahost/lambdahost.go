// Package lambdahost runs Lambda functions on this machine in the same way as Lambda. It starts the executable of a
// function, its bootstrap, as a separate process. The process requests events from a Runtime API and sends its
// responses there. A process handles one event at a time; simultaneous events use several processes. Between events a
// process is frozen.
//
// The package is not a sandbox. Functions run as the calling user, can access the whole file system, and share /tmp. On
// Linux, the host samples their memory to limit it; other systems have no limit. A control group would need privileges
// that users of a laptop do not have. A limit on the address space (RLIMIT_AS, RLIMIT_DATA) would count the hundreds of
// megabytes that a Go process reserves and never uses. docs/decisions/0021-requests-become-events-locally.md explains
// why the project has its own host.
//
// Read lambdahost.go first, then function.go for the pool of processes, process.go for a process, runtimeapi.go for its
// requests, and memory.go. AWS documents the protocol in "Using the Lambda runtime API" (version 2018-06-01), and the
// environment of functions in "Defined runtime environment variables".
package lambdahost

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
)

// Limits of Lambda.
const (
	// initTimeout is the maximum time from the start of a process to its first request for an event.
	initTimeout = 10 * time.Second
	// MaxResponseBytes is the maximum size of a response: 6 MB.
	MaxResponseBytes = 6 << 20
	// MaxEventBytes is the maximum size of an event.
	MaxEventBytes = 6 << 20
)

// ErrClosed is the error of calls after Close.
var ErrClosed = errors.New("the host of functions is closed")

// ErrEventTooLarge is the error of a call whose event is larger than MaxEventBytes.
var ErrEventTooLarge = errors.New("the event is larger than 6 MB")

// Spec describes a function.
type Spec struct {
	// Name is the function's name, in its environment, its ARN and the log.
	Name string
	// Bootstrap is the path of the function's executable.
	Bootstrap string
	// Env has the variables that the installation sets, in addition
	// to the variables of Lambda and the host's Credentials.
	Env map[string]string
	// Timeout is the maximum duration of a call. The host kills the process after that time.
	Timeout time.Duration
	// MemoryMB is the maximum memory of a process. On Linux, the host kills a process that uses more.
	MemoryMB int
	// Processes is the maximum number of simultaneous processes; 0 means 16.
	// If all of them are in use, a call waits, whereas Lambda would reject it.
	Processes int
}

// Credentials are the credentials of the functions' role.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// Options are the options of a Host. All fields are required.
type Options struct {
	Region      string
	Credentials Credentials
	IDs         *ids.Source
	Random      io.Reader
	Now         func() time.Time
	// Log receives the output of functions, line by line. A line that is a JSON log record is logged with its level and
	// attributes. Log also receives a record of each call that a process has handled, at the debug level for successful
	// calls.
	Log *slog.Logger
}

// FunctionError is a failure of a function, in Lambda's format.
type FunctionError struct {
	// Type is an error type of Lambda's runtime, such as Runtime.ExitError, or the type of the function's own error.
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

// Error implements error.
func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// The types of errors that the host detects.
const (
	typeTimeout    = "Sandbox.Timedout"
	typeExit       = "Runtime.ExitError"
	typeMemory     = "Runtime.OutOfMemory"
	typeInit       = "Runtime.InitError"
	typeTooLarge   = "Function.ResponseSizeTooLarge"
	typeUnreadable = "Runtime.InvalidErrorShape"
)

// Host runs functions. Its methods are safe for concurrent use.
type Host struct {
	o Options

	mu        sync.Mutex
	closed    bool
	functions []*Function
}

// New returns a Host without functions.
func New(o Options) *Host { return &Host{o: o} }

// Add adds a function. The function starts at its first call.
func (h *Host) Add(s Spec) (*Function, error) {
	if !supported {
		return nil, errors.New("functions run as processes of their own on Linux and macOS alone: leave " +
			"GATEWRIGHT_FUNCTIONS empty")
	}
	if s.Processes == 0 {
		s.Processes = 16
	}
	if s.Timeout <= 0 || s.MemoryMB <= 0 {
		return nil, fmt.Errorf("function %s has no timeout or no memory", s.Name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, ErrClosed
	}
	f := &Function{host: h, spec: s, slots: make(chan struct{}, s.Processes)}
	h.functions = append(h.functions, f)
	return f, nil
}

// Close ends all processes without waiting for calls in progress, which fail. It returns when the processes have ended.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	functions := h.functions
	h.mu.Unlock()
	var wg sync.WaitGroup
	for _, f := range functions {
		wg.Go(f.close)
	}
	wg.Wait()
}
