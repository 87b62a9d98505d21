// Package processes starts, ends and recognises processes of this machine: what
// systems do differently about groups, signals and parents is in one place.
//
// What it is not: it keeps no process alive (package supervise does) and bounds
// none (package sandbox does).
//
// Read processes.go first; the other files are one system's each.
package processes

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"
)

// Process is one process: an id alone is used again.
type Process struct {
	PID    int
	Parent int
	Name   string // of its program, without the folder and ".exe"
	start  string // when it was started, in the system's form
}

// Find finds a running process; ok is false for one that has ended, waited for
// or not.
func Find(pid int) (p Process, ok bool) {
	if pid <= 0 {
		return Process{}, false
	}
	p, ok = find(pid)
	p.Name = strings.TrimSuffix(p.Name, ".exe")
	return p, ok
}

// Gone reports whether the process has ended.
func (p Process) Gone() bool {
	start, ok := started(p.PID)
	return !ok || start != p.start
}

// Running reports whether any process has the id now.
func Running(pid int) bool {
	if pid <= 0 {
		return false
	}
	_, ok := started(pid)
	return ok
}

// Launchers are the programs that started this process for a person and that take
// nothing with them when they are killed: `make run` and `go run` leave their
// child behind. The nearest is first.
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

// lookInterval is the time between two looks at processes that are waited for.
const lookInterval = 200 * time.Millisecond

// FirstGone waits until one of the processes has ended and names it; ok is false
// when ctx ended before, and at once without any process.
func FirstGone(ctx context.Context, watched []Process) (gone Process, ok bool) {
	if len(watched) == 0 {
		return Process{}, false
	}
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		if i := slices.IndexFunc(watched, Process.Gone); i >= 0 {
			return watched[i], true
		}
		select {
		case <-ctx.Done():
			return Process{}, false
		case <-ticker.C:
		}
	}
}
