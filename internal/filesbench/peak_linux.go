package main

import (
	"errors"
	"os"
	"syscall"
)

// peakOf is the most memory that a process has had, in bytes.
func peakOf(ended *os.ProcessState) (int64, error) {
	usage, ok := ended.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, errors.New("the system does not tell what a process has used")
	}
	return int64(usage.Maxrss) << 10, nil //nolint:unconvert // it is narrower on 32 bits
}
