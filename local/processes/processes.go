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

// FirstGone waits until one of the processes has ended and names it; ok is false
// when ctx ended before, and at once without any process.
func FirstGone(ctx context.Context, watched []Process) (gone Process, ok bool) {
	if len(watched) == 0 {
		return Process{}, false
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan Process, len(watched))
	for _, p := range watched {
		go func() {
			if p.end(ctx) {
				ended <- p
			}
		}()
	}
	select {
	case gone = <-ended:
		return gone, true
	case <-ctx.Done():
		return Process{}, false
	}
}

// lookInterval is the time between two looks at a process that is waited for.
const lookInterval = time.Second

// endSeen waits for the end by looking, and reports whether it came before that of ctx.
func (p Process) endSeen(ctx context.Context) bool {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for !p.Gone() {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
		}
	}
	return true
}
