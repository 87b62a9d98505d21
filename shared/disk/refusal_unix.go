//go:build !windows

package disk

import "syscall"

// refusals has nothing here: advice knows the system's own numbers.
var refusals map[syscall.Errno]syscall.Errno
