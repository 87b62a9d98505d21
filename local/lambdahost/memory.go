package lambdahost

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// memoryInterval is the time between two looks at a process that works. A process
// is found out by that much late, and a sudden allocation is not bounded: the
// page that is over the limit is there already.
const memoryInterval = 20 * time.Millisecond

// memory watches what a process holds, while it works.
type memory struct {
	pid  int
	peak atomic.Int64
	quit chan struct{}
	once sync.Once
}

// watch looks at the process until stop is called; over gets one when it holds
// more than it may.
func (p *process) watch() (m *memory, over <-chan struct{}) {
	m = &memory{pid: p.pid, quit: make(chan struct{})}
	beyond := make(chan struct{}, 1)
	limitKB := int64(p.f.spec.MemoryMB) << 10
	go func() {
		ticker := time.NewTicker(memoryInterval)
		defer ticker.Stop()
		for {
			select {
			case <-m.quit:
				return
			case <-ticker.C:
			}
			if m.sample() > limitKB {
				beyond <- struct{}{}
				return
			}
		}
	}()
	return m, beyond
}

// sample returns what the process holds now, 0 when that cannot be told.
func (m *memory) sample() int64 {
	kB, _ := residentKB(m.pid, "VmRSS:")
	for {
		peak := m.peak.Load()
		if kB <= peak || m.peak.CompareAndSwap(peak, kB) {
			return kB
		}
	}
}

func (m *memory) stop() { m.once.Do(func() { close(m.quit) }) }

// peakKB is the most that was seen, in kB.
func (m *memory) peakKB() int64 { return max(m.peak.Load(), m.sample()) }

// residentKB reads a figure of /proc/PID/status (proc(5)), in kB: VmRSS is what
// a process holds, VmHWM the most it has ever held.
func residentKB(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("look at a process: %w", err)
	}
	_, rest, ok := bytes.Cut(status, []byte("\n"+name))
	if !ok {
		return 0, fmt.Errorf("look at a process: no %s", name)
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	return strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(line), []byte("kB")))), 10, 64)
}
