//go:build !linux

package storetest

import "syscall"

// killWithParent returns nil, because only Linux can end a child process with
// its parent. On other systems the emulator of a killed test keeps running.
func killWithParent() *syscall.SysProcAttr { return nil }
