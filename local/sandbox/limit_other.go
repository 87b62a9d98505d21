//go:build !linux

package sandbox

// limitMemory does nothing: systems other than Linux cannot limit the memory
// that a Go process maps. There, only watchMemory limits the memory, by samples.
func limitMemory() error { return nil }
