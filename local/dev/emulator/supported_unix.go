//go:build unix

package emulator

const supported = true
