package instance

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Processor is the processor time that the product has used so far, in ticks of
// 10 ms (proc(5); Linux alone).
func (i *Instance) Processor() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.PID()))
	if err != nil {
		return 0, fmt.Errorf("look at the product's processor time: %w", err)
	}
	const user, system = 11, 12 // behind the name, which may hold anything
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields", len(fields))
	}
	var ticks int
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, fmt.Errorf("read the product's processor time: %w", err)
		}
		ticks += n
	}
	const tick = 10 * time.Millisecond
	return time.Duration(ticks) * tick, nil
}

// Memory is what a process holds, in bytes.
type Memory struct {
	Now, Most int64 // resident, the program's own pages included
	Own       int64 // of Now, without the pages of files
}

// Memory is what the product holds.
func (i *Instance) Memory() (Memory, error) { return MemoryOf(i.PID()) }

// MemoryOf is what a process holds (proc(5); Linux alone).
func MemoryOf(pid int) (m Memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, fmt.Errorf("look at a process's memory: %w", err)
	}
	for _, f := range []struct {
		name string
		to   *int64
	}{{"VmRSS", &m.Now}, {"VmHWM", &m.Most}, {"RssAnon", &m.Own}} {
		_, rest, _ := strings.Cut(string(status), "\n"+f.name+":")
		text, _, ok := strings.Cut(strings.TrimSpace(rest), " kB")
		if *f.to, err = strconv.ParseInt(text, 10, 64); err != nil || !ok {
			return m, fmt.Errorf("/proc/PID/status has no %s: %w", f.name, err)
		}
		*f.to <<= 10
	}
	return m, nil
}

// Holds is how many open files of the product have names that end so (proc(5); Linux alone).
func (i *Instance) Holds(suffix string) (n int, err error) {
	folder := fmt.Sprintf("/proc/%d/fd", i.PID())
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, fmt.Errorf("look at a process's files: %w", err)
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && strings.HasSuffix(to, suffix) { // else closed meanwhile
			n++
		}
	}
	return n, nil
}

// Quiet waits until the product has nothing to do: less than a fiftieth of a core
// within two seconds.
func (i *Instance) Quiet(ctx context.Context) error {
	const span, most = 2 * time.Second, 40 * time.Millisecond
	for last := time.Duration(-1); ; {
		used, err := i.Processor()
		if err != nil {
			return err
		}
		if last >= 0 && used-last < most {
			return nil
		}
		last = used
		select {
		case <-ctx.Done():
			return fmt.Errorf("the product does not come to rest: %w", ctx.Err())
		case <-i.ended:
			return fmt.Errorf("the product has ended: %s", i.log.Bytes())
		case <-time.After(span):
		}
	}
}
