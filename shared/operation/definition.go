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

	"github.com/gatewright/gatewright/shared/store"
)

// The two ways an operation ends, for State.Next, State.Or, State.Catch and
// Result.Next.
const (
	// Succeed ends the operation with status success.
	Succeed = "success"
	// Fail ends it with status error.
	Fail = "error"
)

// Definition is a kind of operation: a table of states.
type Definition struct {
	// Kind is stored with each operation and never changes its meaning: a
	// running operation of an older release is continued by a newer one.
	Kind string
	// First names the state to begin with.
	First string
	// States by name. A name is shown to clients where a contract says so.
	States map[string]State
}

// State is one line of a Definition.
type State struct {
	// Does says in a few words what the task does, for the table of states.
	Does string
	// Task does it.
	Task Task
	// Next follows unless the Result names another: a state, Succeed or Fail.
	Next string
	// Or lists what else a Result may name.
	Or []string
	// Must says that what the state is for has to happen: what it would leave
	// undone stays in the table for ever. It never fails: its task is run until it
	// succeeds, ever less often, and after a while an alarm rings and a person can
	// look it up and resume it (List, Resume). It has no Catch and no number of
	// attempts. A state that may end in a refusal is none of these.
	Must bool
	// Retry says how often a failed task is run again.
	Retry Retry
	// Catch follows when the task has failed for good; "" means Fail. States
	// that catch each other in a circle are refused.
	Catch string
	// Timeout bounds one run of the task, whose context then ends; 0 means 30
	// seconds. A worker that died is replaced that much later.
	Timeout time.Duration
	// Deaths is after how many workers that ended in the middle of the task it is
	// held to be the cause: of one that works on a stranger's input, which may
	// take all the memory there is. 0 means as many as interruptions of any kind.
	Deaths int
}

// Retry says how often and when a failed task is run again. The zero value
// means 5 attempts, the pause before the second up to 1 s, then doubled, at
// most 1 minute. Pauses are random below that (full jitter).
//
// Not counted here, and bounded separately, are runs that ended because the
// worker died or the store did not answer. Never repeated are faults that
// repeating cannot help: all kinds but Internal, Throttled and Unavailable. A
// state that must happen repeats all of them, without end, and its longest pause
// is 10 minutes.
type Retry struct {
	// Attempts is how often the task runs at most; 1 means no retry.
	Attempts int
	// First bounds the first pause, Longest all.
	First, Longest time.Duration
}

// pause is the longest pause after failed attempt n, from 1.
func (r Retry) pause(n int) time.Duration {
	first, longest := r.First, r.Longest
	if first == 0 {
		first = time.Second
	}
	if longest == 0 {
		longest = time.Minute
	}
	pause := min(first, longest)
	for range n - 1 {
		if pause > longest/2 {
			return longest
		}
		pause *= 2
	}
	return pause
}

// retry is the state's Retry, with pauses up to longestPause where it must happen
// and says no other bound.
func (s State) retry() Retry {
	r := s.Retry
	if s.Must && r.Longest == 0 {
		r.Longest = longestPause
	}
	return r
}

const (
	// longestPause is how long a state that must happen waits at most: short enough
	// for it to be over soon after what kept it, and for an alarm over 15 minutes.
	longestPause = 10 * time.Minute
	// alarmAfter is after how many attempts in vain the alarm rings: the pauses
	// before are 8 minutes at most.
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

// leadsTo returns all that may follow the state.
func (s State) leadsTo() []string {
	return append([]string{s.Next, s.catch()}, s.Or...)
}

// Task does the work of a state. It may run more than once and at the same time
// as another run of itself: only what it answers in Result.Writes happens
// exactly once. It stops when its context ends.
//
// It is no decision (store.Decide): its writes have to carry the conditions that
// what they were decided from still holds, as a version, or rest on what never
// turns back: a number that only grows, an entry of one's own, an end. Were every
// read a condition, a build would begin its download again whenever another one of
// the branch began, and a walk had no room for its writes beside the checks.
// operationtest runs definitions with another worker between read and commit.
//
// An error is judged by Retry and Catch. Its public text (package fault) is
// shown to clients; any other text only goes to the log.
type Task func(ctx context.Context, s Step) (Result, error)

// Result is what a task answers. The zero value goes on to State.Next.
type Result struct {
	// Writes are committed together with the operation's advance: all or
	// nothing, once. At most MaxWrites, none to the operation's own record.
	Writes []store.Write
	// Next names what follows instead of State.Next; it stands in State.Or.
	Next string
	// Again runs the same state once more, for work in portions; then Next is
	// not looked at.
	Again bool
	// After delays what follows.
	After time.Duration
	// Data replaces what Step.Data reads and Record.Data shows; nil keeps it.
	// Stored as JSON, at most 128 KiB.
	Data any
	// Message, a plain sentence for clients, replaces the record's unless it
	// is empty.
	Message string

	// cursor replaces Step.cursor in the next step of the same state.
	cursor string
}

// MaxWrites is how many writes a Result may hold: a transaction's less the one
// to the record.
const MaxWrites = store.MaxWrites - 1

// validate refuses a definition that could strand an operation.
func (d Definition) validate() error {
	var errs []error
	complain := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("operation kind %q: "+format, append([]any{d.Kind}, args...)...))
	}
	if d.Kind == "" {
		complain("no name")
	}
	if _, ok := d.States[d.First]; !ok {
		complain("first state %q is not defined", d.First)
	}
	for _, name := range slices.Sorted(maps.Keys(d.States)) {
		s := d.States[name]
		switch {
		case name == "" || name == Succeed || name == Fail:
			complain("a state may not be named %q", name)
		case s.Task == nil:
			complain("state %q has no task", name)
		case s.Deaths < 0 || s.Retry.Attempts < 0 || s.Retry.First < 0 || s.Retry.Longest < 0 || s.Timeout < 0:
			complain("state %q has a negative bound", name)
		case s.Must && (s.Catch != "" || s.Retry.Attempts != 0):
			complain("state %q must happen, and says what follows when it does not", name)
		}
		for _, next := range s.leadsTo() {
			if _, ok := d.States[next]; !ok && next != Succeed && next != Fail {
				complain("state %q leads to %q, which is not defined", name, next)
			}
		}
		if d.catchesItself(name) {
			complain("state %q catches itself in a circle", name)
		}
		if !d.ends(name) {
			complain("state %q leads to no end", name)
		}
	}
	reached := d.reachable()
	for _, name := range slices.Sorted(maps.Keys(d.States)) {
		if !slices.Contains(reached, name) {
			complain("nothing leads to state %q", name)
		}
	}
	return errors.Join(errs...)
}

// reachable returns the states that may occur, in the order in which they do when
// all goes well, each choice and failure behind what it is an alternative to.
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
		for _, next := range s.Or {
			visit(next)
		}
		visit(s.catch())
	}
	visit(d.First)
	return reached
}

// ends reports whether name leads to an end without a failure on the way: every
// state has Fail behind it, which makes no end of a circle.
func (d Definition) ends(name string) bool {
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
		return slices.ContainsFunc(append([]string{s.Next}, s.Or...), visit)
	}
	return visit(name)
}

func (d Definition) catchesItself(name string) bool {
	seen := map[string]bool{}
	for at := name; at != Fail && at != Succeed; {
		s, ok := d.States[at]
		if !ok {
			return false
		}
		if seen[at] = true; seen[s.catch()] {
			return s.catch() == name
		}
		at = s.catch()
	}
	return false
}

// String is the definition as a table in Markdown, one line a state.
func (d Definition) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n| state | does | next | on failure | attempts | timeout |\n|---|---|---|---|---|---|\n", d.Kind)
	for _, name := range d.reachable() {
		s := d.States[name]
		catch, attempts := s.catch(), strconv.Itoa(s.Retry.attempts())
		if s.Must {
			catch, attempts = "goes on", "until it is done"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %v |\n", name, s.Does,
			strings.Join(append([]string{s.Next}, s.Or...), ", "), catch, attempts, s.timeout())
	}
	return b.String()
}
