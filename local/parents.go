package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// process is one process of this machine: a process id alone is used again.
type process struct {
	pid    int
	parent int
	name   string
	start  string // clock ticks since the machine's start
}

// readProcess reads /proc/PID/stat (proc(5)); ok is false for a process that
// is gone, or a system that has no /proc.
func readProcess(pid int) (p process, ok bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	open, end := bytes.IndexByte(content, '('), bytes.LastIndexByte(content, ')')
	if open < 0 || end < open {
		return process{}, false
	}
	fields := strings.Fields(string(content[end+1:]))
	const state, parent, start = 0, 1, 19
	if len(fields) <= start || fields[state] == "Z" {
		return process{}, false
	}
	p = process{pid: pid, name: string(content[open+1 : end]), start: fields[start]}
	p.parent, err = strconv.Atoi(fields[parent])
	return p, err == nil
}

// launchers are the programs that start this one for a person and that take
// nothing with them when they are killed: `make run` and `go run` leave their
// child behind.
func launchers() []process {
	var out []process
	for pid := os.Getppid(); ; {
		p, ok := readProcess(pid)
		if !ok || !slices.Contains([]string{"go", "make", "gmake"}, p.name) {
			return out
		}
		out = append(out, p)
		pid = p.parent
	}
}

// stopWithParents calls stop when one of the launchers is gone.
func stopWithParents(ctx context.Context, stop func(name string)) {
	watched := launchers()
	if len(watched) == 0 {
		return
	}
	go func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for {
			for _, w := range watched {
				if now, ok := readProcess(w.pid); !ok || now.start != w.start {
					stop(w.name)
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}()
}
