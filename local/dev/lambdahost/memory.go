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

// memoryInterval is the time between two samples of a process's memory. Up to memoryInterval can pass before the host
// detects that a process exceeds its limit. The host cannot prevent a sudden large allocation.
const memoryInterval = 20 * time.Millisecond

// memorySampler samples the memory of a process during its initialization or a call.
type memorySampler struct {
	pid  int
	peak atomic.Int64
	quit chan struct{}
	once sync.Once
}

// watchMemory samples the process's memory until m.stop is called or the process exceeds
// its limit. If the process exceeds its limit, exceeded receives a value.
func (p *process) watchMemory() (m *memorySampler, exceeded <-chan struct{}) {
	m = &memorySampler{pid: p.pid, quit: make(chan struct{})}
	limitReached := make(chan struct{}, 1)
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
				limitReached <- struct{}{}
				return
			}
		}
	}()
	return m, limitReached
}

// sample returns the current memory of the process in kB. It returns 0 if it cannot read it, as on systems without
// /proc. It also updates m.peak.
func (m *memorySampler) sample() int64 {
	kB, _ := processStatusKB(m.pid, "VmRSS:")
	for {
		peak := m.peak.Load()
		if kB <= peak || m.peak.CompareAndSwap(peak, kB) {
			return kB
		}
	}
}

func (m *memorySampler) stop() { m.once.Do(func() { close(m.quit) }) }

// peakKB returns the largest sample, in kB.
func (m *memorySampler) peakKB() int64 { return max(m.peak.Load(), m.sample()) }

// processStatusKB returns the value called name in /proc/PID/status (proc(5)), in kB. name
// includes the colon: "VmRSS:" is the current memory of the process.
func processStatusKB(pid int, name string) (int64, error) {
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
