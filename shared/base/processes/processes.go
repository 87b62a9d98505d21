// Package processes starts, ends and identifies processes of this machine. It hides how operating systems differ in
// process groups, signals and parent processes.
//
// It does not restart processes (package supervise does) and does not limit them (package sandbox does).
//
// Read processes.go first. The suffix of each other file names its operating system.
package processes

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
)

// Process identifies one process. An id alone is not enough, since systems reuse ids.
type Process struct {
	PID    int
	Parent int
	Name   string // name of the program, without the folder and ".exe"; Linux cuts it after 15 bytes
	start  string // start time, in the system's format
}

// Find returns the running process with an id. ok is false if there is none. A process that has ended does not count
// as running, even if its parent has not waited for it yet.
func Find(pid int) (p Process, ok bool) {
	if pid <= 0 {
		return Process{}, false
	}
	p, ok = find(pid)
	p.Name = strings.TrimSuffix(p.Name, ".exe")
	return p, ok
}

// Exited reports whether the process has ended, even if another process has its id now.
func (p Process) Exited() bool {
	start, ok := startTime(p.PID)
	return !ok || start != p.start
}

// Running reports whether any process has this id now.
func Running(pid int) bool {
	if pid <= 0 {
		return false
	}
	_, ok := startTime(pid)
	return ok
}

// Launchers returns the programs that started this process for a person and do not end their children when they are
// killed: `make run` and `go run` leave their child running. The nearest ancestor is first.
func Launchers() []Process {
	var out []Process
	for pid := os.Getppid(); ; {
		p, ok := Find(pid)
		if !ok || !slices.Contains(launcherNames(), p.Name) {
			return out
		}
		out = append(out, p)
		pid = p.Parent
	}
}

// WaitFirstExit waits until one of the processes has ended and returns it. ok is false if ctx ended first. If there are
// no processes, it returns false immediately.
func WaitFirstExit(ctx context.Context, watched []Process) (exited Process, ok bool) {
	if len(watched) == 0 {
		return Process{}, false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	exits := make(chan Process, len(watched))
	for _, p := range watched {
		go func() {
			if p.waitExit(ctx) {
				exits <- p
			}
		}()
	}
	select {
	case exited = <-exits:
		return exited, true
	case <-ctx.Done():
		return Process{}, false
	}
}

// pollInterval is the time between two checks of pollExit.
const pollInterval = time.Second

// pollExit waits for the process's end by polling. It returns false if ctx ends first.
func (p Process) pollExit(ctx context.Context) bool {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !p.Exited() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}
