//go:build !linux

package processes

import "syscall"

// KillWithParent is Group: this system does not end a child with its parent. The child has
// to notice the parent's end itself, for example by the end of its standard input.
func KillWithParent() *syscall.SysProcAttr { return Group() }
