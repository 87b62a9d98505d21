//go:build !windows

package disk

import "syscall"

// equivalentErrnos is empty on systems other than Windows: the keys of advice are the system's own error numbers.
var equivalentErrnos map[syscall.Errno]syscall.Errno
