//go:build !linux

package storetest

import "syscall"

// Only Linux ends a child with its parent: elsewhere a killed test leaves its
// emulator behind.
func diesWithParent() *syscall.SysProcAttr { return nil }
