package sandbox

import "syscall"

// reserve is what a Go process maps as its own and never touches: arenas are
// mapped 64 MiB at a time.
const reserve = 128 << 20

// limitMemory bounds what the process maps as its own (RLIMIT_DATA, getrlimit(2)),
// so that no allocation goes past it between two looks: the runtime ends the
// process then, and says that it is out of memory. RLIMIT_AS would count the
// addresses that the runtime reserves, too.
func limitMemory() error {
	limit := uint64(hardLimit + reserve)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit})
}
