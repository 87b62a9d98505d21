//go:build !windows

package disk

import "syscall"

// refusals is empty here: advice has the system's own numbers.
var refusals map[syscall.Errno]syscall.Errno
