//go:build !linux

package processes

import "syscall"

// Bound is Group: this system ends no child with its parent, which has to notice
// by something else, such as the end of its standard input.
func Bound() *syscall.SysProcAttr { return Group() }
