package operation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Succeed and Fail are the two ends of an operation. Use them in
// State.Next, State.Alternatives, State.Catch and Result.Next.
const (
	// Succeed ends the operation with status success.
	Succeed = "success"
	// Fail ends the operation with status error.
	Fail = "error"
)

// Definition is a kind of operation: a table of states.
type Definition struct {
	// Kind is stored with each operation. Its meaning must never change: a
	// newer release continues operations that an older release has begun.
	Kind string
	// First is the name of the first state.
	First string
	// States has the states by name. Clients see the name of a state only if the specification of the API includes it.
	States map[string]State
}

// State is one row of a Definition.
type State struct {
	// Description describes the task in a few words, for the table of states.
	Description string
	// Task is the work of the state.
	Task Task
	// Next is a state, Succeed or Fail. It follows the state unless the Result names something else.
	Next string
	// Alternatives lists the other values that a Result can name.
	Alternatives []string
	// MustSucceed means that the state's work is necessary: if it were not done, data would remain in the table forever.
	// The state never fails: the engine runs its task until it succeeds, with growing pauses. After alarmAfter attempts an
	// alarm is raised, and an operator can find the operation and resume it (List, Resume). Such a state has no Catch and
	// no Retry.Attempts, and must not have MaxDeaths, which would let it fail. Do not set MustSucceed for a state whose
	// task can fail permanently, for example because another service always rejects the request.
	MustSucceed bool
	// Retry says how often the engine repeats a failed task.
	Retry Retry
	// Catch is the state that follows after the last failed attempt at the
	// task. "" means Fail. States must not catch each other in a cycle.
	Catch string
	// Timeout limits one run of the task: the task's context ends after it. 0 means 30 seconds. If a worker dies, another
	// worker replaces it at the first sweep after the sum of Timeout and leaseMargin.
	Timeout time.Duration
	// MaxDeaths is the number of workers that can die in the middle of the task before the task is assumed to be the
	// cause. Set it for a task that processes untrusted input, which may exhaust the memory. 0 means that deaths count
	// only as interruptions.
	MaxDeaths int
}

// Retry says how often and when a failed task is repeated. The zero value means 5
// attempts. The pause before the second attempt is at most 1 s. For each further attempt
// the maximum doubles, up to 1 minute. Pauses are random below the maximum (full jitter).
//
// Runs that ended for a reason outside the task do not count as attempts: they have a separate limit
// (maxInterruptions). The reasons are that the worker died or had to stop, and that the store or another service
// throttled the task or was unavailable. A task is not repeated after an error that a repeat cannot fix: an invalid
// Result, or a fault of any kind except Internal, Throttled, Unavailable and DatabaseUnavailable. A state with
// MustSucceed repeats its task after every error, without a limit. Its longest pause is 10 minutes unless MaxDelay is
// set.
type Retry struct {
	// Attempts is the maximum number of attempts at the step; 1 means no retry, and 0 means 5.
	Attempts int
	// InitialDelay is the maximum of the first delay. MaxDelay is the maximum of all delays.
	InitialDelay, MaxDelay time.Duration
}

// delay returns the longest delay after failed attempt n, counted from 1.
func (r Retry) delay(n int) time.Duration {
	first, longest := r.InitialDelay, r.MaxDelay
	if first == 0 {
		first = time.Second
	}
	if longest == 0 {
		longest = time.Minute
	}
	delay := min(first, longest)
	for range n - 1 {
		if delay > longest/2 {
			return longest
		}
		delay *= 2
	}
	return delay
}

// retry returns the state's Retry. If a state with MustSucceed has no MaxDelay, the result has maxMustDelay.
func (s State) retry() Retry {
	r := s.Retry
	if s.MustSucceed && r.MaxDelay == 0 {
		r.MaxDelay = maxMustDelay
	}
	return r
}

const (
	// maxMustDelay is the longest delay of a state with MustSucceed. It is so short that the state finishes soon
	// after the obstacle is gone, and that every period of 15 minutes has an attempt, which raises the alarm.
	maxMustDelay = 10 * time.Minute
	// alarmAfter is the number of unsuccessful attempts after which the alarm is raised. With the zero Retry,
	// the pauses between these attempts are less than 9 minutes in total, without the waits for sweeps.
	alarmAfter = 10
)

func (r Retry) attempts() int {
	if r.Attempts == 0 {
		return 5
	}
	return r.Attempts
}

const defaultTimeout = 30 * time.Second

func (s State) timeout() time.Duration {
	if s.Timeout == 0 {
		return defaultTimeout
	}
	return s.Timeout
}

func (s State) catch() string {
	if s.Catch == "" {
		return Fail
	}
	return s.Catch
}

// successors returns all states that can follow the state, and Succeed and Fail if these can follow.
func (s State) successors() []string {
	return append([]string{s.Next, s.catch()}, s.Alternatives...)
}

// Task does the work of a state. It can run more than once, even at the same time in two workers. Only its
// Result.Writes happen exactly once. It must stop when its context ends.
//
// A Task has no read set (store.WithReadSet). If a write is based on data that the task has read, the write needs a
// condition that fails after the data has changed, such as a condition on a version. No condition is necessary for data
// that never changes back, such as a number that only grows, an entry that only this operation writes, or a final
// status. If every read became a condition, a build would repeat its download whenever another build of the branch
// began. And the writes of a Walk would not fit into a transaction together with the checks. operationtest runs
// definitions with another worker between read and commit.
//
// Retry and Catch decide what follows an error. Clients see the error's public text (package fault). Any other text of
// the error is only logged.
type Task func(ctx context.Context, s Step) (Result, error)

// Result is the result of a task. The zero value continues with State.Next.
type Result struct {
	// Writes are committed once, all or none, in the transaction that advances the operation.
	// There can be at most MaxWrites. They must not write the operation's own record.
	Writes []store.Write
	// Next names the state that follows instead of State.Next. It must be in State.Alternatives.
	Next string
	// Repeat makes the next step run the same state again, for work in portions. Next is then ignored.
	Repeat bool
	// Delay delays the next step.
	Delay time.Duration
	// Data replaces the data that Step.Data and Record.DecodeData read. nil
	// keeps the earlier data. Data is stored as JSON of at most 128 KiB.
	Data any
	// Message is a plain sentence for clients. It replaces the record's message unless it is empty.
	Message string

	// cursor replaces Step.cursor in the next step of the same state.
	cursor string
}

// MaxWrites is the maximum number of writes in a Result. A transaction has one more, for the record.
const MaxWrites = store.MaxWrites - 1

// validate returns an error for a definition that could get an operation stuck.
func (d Definition) validate() error {
	var errs []error
	addError := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("operation kind %q: "+format, append([]any{d.Kind}, args...)...))
	}
	if d.Kind == "" {
		addError("no name")
	}
	if _, ok := d.States[d.First]; !ok {
		addError("first state %q is not defined", d.First)
	}
	for _, name := range slices.Sorted(maps.Keys(d.States)) {
		s := d.States[name]
		switch {
		case name == "" || name == Succeed || name == Fail:
			addError("a state may not be named %q", name)
		case s.Task == nil:
			addError("state %q has no task", name)
		case s.MaxDeaths < 0 || s.Retry.Attempts < 0 || s.Retry.InitialDelay < 0 || s.Retry.MaxDelay < 0 || s.Timeout < 0:
			addError("state %q has a negative bound", name)
		case s.MustSucceed && (s.Catch != "" || s.Retry.Attempts != 0):
			addError("state %q must happen, and says what follows when it does not", name)
		}
		for _, next := range s.successors() {
			if _, ok := d.States[next]; !ok && next != Succeed && next != Fail {
				addError("state %q leads to %q, which is not defined", name, next)
			}
		}
		if d.hasCatchCycle(name) {
			addError("state %q catches itself in a circle", name)
		}
		if !d.reachesEnd(name) {
			addError("state %q leads to no end", name)
		}
	}
	reached := d.reachable()
	for _, name := range slices.Sorted(maps.Keys(d.States)) {
		if !slices.Contains(reached, name) {
			addError("nothing leads to state %q", name)
		}
	}
	return errors.Join(errs...)
}

// reachable returns the states that can occur, in the order of a run without failures. Each
// alternative or catching state comes after the first state in the list that names it.
func (d Definition) reachable() []string {
	var reached []string
	var visit func(string)
	visit = func(name string) {
		s, ok := d.States[name]
		if !ok || slices.Contains(reached, name) {
			return
		}
		reached = append(reached, name)
		visit(s.Next)
		for _, next := range s.Alternatives {
			visit(next)
		}
		visit(s.catch())
	}
	visit(d.First)
	return reached
}

// reachesEnd reports whether an operation can get from the state called name to Succeed or Fail if no task fails.
// Failures do not count, because every state can fail, even the states of an endless cycle.
func (d Definition) reachesEnd(name string) bool {
	seen := map[string]bool{}
	var visit func(string) bool
	visit = func(name string) bool {
		if name == Succeed || name == Fail {
			return true
		}
		if seen[name] {
			return false
		}
		seen[name] = true
		s := d.States[name]
		return slices.ContainsFunc(append([]string{s.Next}, s.Alternatives...), visit)
	}
	return visit(name)
}

// hasCatchCycle reports whether the state called name is part of a cycle of states that catch each other.
func (d Definition) hasCatchCycle(name string) bool {
	seen := map[string]bool{}
	for current := name; current != Fail && current != Succeed; {
		s, ok := d.States[current]
		if !ok {
			return false
		}
		if seen[current] = true; seen[s.catch()] {
			return s.catch() == name
		}
		current = s.catch()
	}
	return false
}

// String returns the definition as a Markdown table with one row for each state.
func (d Definition) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| state | does | next | on failure | attempts | timeout |\n|---|---|---|---|---|---|\n",
		d.Kind)
	for _, name := range d.reachable() {
		s := d.States[name]
		catch, attempts := s.catch(), strconv.Itoa(s.Retry.attempts())
		if s.MustSucceed {
			catch, attempts = "goes on", "until it is done"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %v |\n", name, s.Description,
			strings.Join(append([]string{s.Next}, s.Alternatives...), ", "), catch, attempts, s.timeout())
	}
	return b.String()
}
