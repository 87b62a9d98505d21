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

// Processor returns the processor time that the product has used so far, in steps of 10 ms (proc(5); only on Linux).
func (i *Instance) Processor() (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.PID()))
	if err != nil {
		return 0, fmt.Errorf("read the product's processor time: %w", err)
	}
	const user, system = 11, 12 // the indexes of the fields after the process name, which can contain any characters
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) <= system {
		return 0, fmt.Errorf("/proc/PID/stat has %d fields after the name, want more than %d", len(fields), system)
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

// Memory is the memory of a process, in bytes.
type Memory struct {
	Now, Max  int64 // resident memory now and at its peak, including the pages of the program file
	Anonymous int64 // the part of Now that is not pages of files
}

// Memory returns the memory of the product.
func (i *Instance) Memory() (Memory, error) { return MemoryOf(i.PID()) }

// MemoryOf returns the memory of a process (proc(5); only on Linux).
func MemoryOf(pid int) (m Memory, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, fmt.Errorf("read a process's memory: %w", err)
	}
	for _, f := range []struct {
		name string
		to   *int64
	}{{"VmRSS", &m.Now}, {"VmHWM", &m.Max}, {"RssAnon", &m.Anonymous}} {
		_, value, _ := strings.Cut(string(status), "\n"+f.name+":")
		text, _, ok := strings.Cut(strings.TrimSpace(value), " kB")
		if *f.to, err = strconv.ParseInt(text, 10, 64); err != nil || !ok {
			return m, fmt.Errorf("/proc/PID/status has no %s: %w", f.name, err)
		}
		*f.to <<= 10
	}
	return m, nil
}

// CountOpenFiles returns the number of open files of the product whose names end in suffix (proc(5); only on Linux).
func (i *Instance) CountOpenFiles(suffix string) (n int, err error) {
	folder := fmt.Sprintf("/proc/%d/fd", i.PID())
	entries, err := os.ReadDir(folder)
	if err != nil {
		return 0, fmt.Errorf("read a process's open files: %w", err)
	}
	for _, e := range entries {
		// ignore errors: the file was closed meanwhile
		if target, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && strings.HasSuffix(target, suffix) {
			n++
		}
	}
	return n, nil
}

// WaitIdle waits until the product is idle, which means that it uses less than 2 % of a core during two seconds.
func (i *Instance) WaitIdle(ctx context.Context) error {
	const span, maxUsage = 2 * time.Second, 40 * time.Millisecond
	for previous := time.Duration(-1); ; {
		used, err := i.Processor()
		if err != nil {
			return err
		}
		if previous >= 0 && used-previous < maxUsage {
			return nil
		}
		previous = used
		select {
		case <-ctx.Done():
			return fmt.Errorf("the product did not become idle: %w", ctx.Err())
		case <-i.done:
			return fmt.Errorf("the product has ended: %s", i.log.Bytes())
		case <-time.After(span):
		}
	}
}
