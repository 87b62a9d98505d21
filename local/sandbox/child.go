package sandbox

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"time"

	"github.com/gatewright/gatewright/shared/builds"
	"github.com/gatewright/gatewright/shared/garbage"
	"github.com/gatewright/gatewright/shared/project"
)

// How a child ends beside success and failure.
const (
	exitMemory = 3
	exitOrphan = 4
)

const (
	// softLimit is from where on the collector works harder: a heap may double
	// until its next run otherwise.
	softLimit = project.BuildMemory * 3 / 4
	// hardLimit is where a child ends itself, when the collector finds nothing;
	// the rest is for its code and what it has allocated since the last look.
	hardLimit = project.BuildMemory * 7 / 8
	// interval is the time between two looks. A sudden allocation between them is
	// bounded by the system, where it can (limit_linux.go).
	interval = 5 * time.Millisecond
)

// Alive opens the file that the child was started with: it ends with the parent.
// It is nil for a name that no parent has given.
func Alive(name string) *os.File {
	handle, err := strconv.ParseUint(name, 10, strconv.IntSize)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(handle), "alive")
}

// Child compiles the project that it finds at in. alive is Alive: a child
// that has lost its parent ends at once, since nobody waits for it.
func Child(ctx context.Context, in io.Reader, out io.Writer, alive io.Reader) error {
	go func() {
		_, _ = io.Copy(io.Discard, alive)
		os.Exit(exitOrphan)
	}()
	if err := bound(ctx); err != nil {
		return err
	}
	return builds.Work(ctx, in, out)
}

// bound bounds the memory of this process for the rest of its life.
func bound(ctx context.Context) error {
	debug.SetMemoryLimit(softLimit)
	runtime.GC() // Keep goes by what the last collection has left
	go garbage.Keep(ctx)
	if err := limitMemory(); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	go watch()
	return nil
}

// watch ends the process when it holds more than it may.
func watch() {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(interval) {
		metrics.Read(samples)
		if samples[0].Value.Uint64()-samples[1].Value.Uint64() > hardLimit {
			os.Exit(exitMemory)
		}
	}
}
