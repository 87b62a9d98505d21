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

	"github.com/gatewright/gatewright/shared/base/gctuning"
	"github.com/gatewright/gatewright/shared/dataplane/builds"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Exit codes of a child, in addition to 0 and 1.
const (
	exitMemory = 3
	exitOrphan = 4
)

const (
	// softLimit is the memory above which Go's garbage collector runs more
	// often. Otherwise the heap could double before the next collection.
	softLimit = project.BuildMemory * 3 / 4
	// hardLimit is the memory at which a child ends itself. The rest of project.BuildMemory
	// is for the program's code, and for allocations since the last sample.
	hardLimit = project.BuildMemory * 7 / 8
	// sampleInterval is the time between two samples of the memory. On Linux, the
	// system limits a sudden allocation between two samples (limit_linux.go).
	sampleInterval = 5 * time.Millisecond
)

// OpenParentPipe opens the pipe that the child has inherited. name is the pipe's descriptor or handle as
// text. Reads of the pipe end when the parent ends. OpenParentPipe returns nil if name is not a number.
func OpenParentPipe(name string) *os.File {
	handle, err := strconv.ParseUint(name, 10, strconv.IntSize)
	if err != nil {
		return nil
	}
	return os.NewFile(uintptr(handle), "alive")
}

// RunChild reads a project from its input (in), compiles it, and writes the result to its output (out). parentPipe is
// the result of OpenParentPipe: when the parent has ended, the child ends at once, because no process needs the result.
func RunChild(ctx context.Context, in io.Reader, out io.Writer, parentPipe io.Reader) error {
	go func() {
		_, _ = io.Copy(io.Discard, parentPipe)
		os.Exit(exitOrphan)
	}()
	if err := limitProcess(ctx); err != nil {
		return err
	}
	return builds.ServeBuild(ctx, in, out)
}

// limitProcess limits the memory of this process for the rest of its life.
func limitProcess(ctx context.Context) error {
	debug.SetMemoryLimit(softLimit)
	runtime.GC() // Tune uses the result of the last collection
	go gctuning.Tune(ctx)
	if err := limitMemory(); err != nil {
		return fmt.Errorf("bound the memory: %w", err)
	}
	go watchMemory()
	return nil
}

// watchMemory ends the process when its memory exceeds the limit.
func watchMemory() {
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(sampleInterval) {
		metrics.Read(samples)
		if samples[0].Value.Uint64()-samples[1].Value.Uint64() > hardLimit {
			os.Exit(exitMemory)
		}
	}
}
