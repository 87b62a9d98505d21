// Package lambdahost runs Lambda functions on this machine as Lambda does: each
// bootstrap is a process of its own, which fetches its events from a Runtime
// API and posts its answers there. A process answers one event at a time; more
// events at once are more processes; between events a process is frozen.
//
// What it is not: a sandbox. Functions run as the calling user, see the whole
// file system and share /tmp. Their memory is bounded by looking at it, since a
// control group needs rights that nobody has on a laptop, and a limit on
// address space (RLIMIT_AS, RLIMIT_DATA) counts what a Go process reserves and
// never touches, which is hundreds of megabytes. Why there is a host of our own:
// docs/decisions/0021-requests-become-events-locally.md.
//
// Read lambdahost.go first, then function.go for the pool of processes,
// process.go for one of them, runtimeapi.go for what it asks, and memory.go.
// The protocol is that of AWS's "Using the Lambda runtime API", version
// 2018-06-01; what functions are told is that of "Defined runtime environment
// variables".
package lambdahost

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
)

// Limits of Lambda.
const (
	// initTimeout is how long a process may take to its first poll.
	initTimeout = 10 * time.Second
	// MaxAnswerBytes is the size of an answer: 6 MB.
	MaxAnswerBytes = 6 << 20
	// MaxEventBytes is the size of an event.
	MaxEventBytes = 6 << 20
)

// ErrClosed is the answer to calls after Close.
var ErrClosed = errors.New("the host of functions is closed")

// ErrEventTooLarge is the answer to an event beyond MaxEventBytes.
var ErrEventTooLarge = errors.New("the event is larger than 6 MB")

// Spec describes a function.
type Spec struct {
	// Name is the function's, as its environment says it.
	Name string
	// Bootstrap is the path of its executable.
	Bootstrap string
	// Env are the variables that the installation sets, beside those of Lambda
	// and the host's Credentials.
	Env map[string]string
	// Timeout bounds one call; the process is killed at its end.
	Timeout time.Duration
	// MemoryMB bounds what the process may keep in memory; it is killed beyond.
	MemoryMB int
	// Processes is how many there may be at once; 0 is 16. Above it a call
	// waits, where Lambda would refuse it.
	Processes int
}

// Credentials are those of the functions' role.
type Credentials struct {
	AccessKeyID, SecretAccessKey, SessionToken string
}

// Options are what a Host takes from outside. All fields are needed.
type Options struct {
	Region      string
	Credentials Credentials
	IDs         *ids.Source
	Random      io.Reader
	Now         func() time.Time
	// Log gets what functions write, line by line (a line that is a JSON log
	// record as that record), and at the debug level a report of every call.
	Log *slog.Logger
}

// FunctionError is what went wrong in a function, as Lambda tells it.
type FunctionError struct {
	// Type is the runtime's, such as Runtime.ExitError, or the function's own.
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

// Error implements error.
func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// The kinds of failure that are not the function's own.
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

// New makes a Host without functions.
func New(o Options) *Host { return &Host{o: o} }

// Add makes a function known. Nothing is started before its first call.
func (h *Host) Add(s Spec) (*Function, error) {
	if !supported {
		return nil, errors.New("functions run as processes of their own on Linux and macOS alone: leave GATEWRIGHT_FUNCTIONS empty")
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
	f := &Function{host: h, spec: s, room: make(chan struct{}, s.Processes)}
	h.functions = append(h.functions, f)
	return f, nil
}

// Close ends all processes at once, and waits until they are gone. Calls that
// are under way fail.
func (h *Host) Close() {
	h.mu.Lock()
	h.closed = true
	functions := h.functions
	h.mu.Unlock()
	var all sync.WaitGroup
	for _, f := range functions {
		all.Go(f.close)
	}
	all.Wait()
}
