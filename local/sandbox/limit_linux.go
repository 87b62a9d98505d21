package sandbox

import "syscall"

// reservedBytes is the memory that a Go process maps privately without using it: Go maps arenas of 64 MiB.
const reservedBytes = 128 << 20

// limitMemory limits the private mappings of the process (RLIMIT_DATA, getrlimit(2)), so that no allocation exceeds the
// limit between two samples. If the limit is exceeded, Go's runtime ends the process with an out-of-memory message.
// RLIMIT_AS would also count the addresses that the runtime reserves.
func limitMemory() error {
	limit := uint64(hardLimit + reservedBytes)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit})
}
