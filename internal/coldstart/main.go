// Command coldstart measures each function's binary as Lambda would meet it: its
// size, the time from its start to its first poll of the Runtime API, and the
// most memory it has held by then and after answering requests.
//
// What it is not: a Lambda. The kernel has the binary in its cache, there is no
// sandbox to make, and no request reaches a table: what is measured is our
// share of a cold start. It fails when a figure is beyond its limit; with -under, where
// functions are for another processor and an emulator of it starts them, when one does not start.
//
// Read main.go, then runtime.go. `make bench` runs it over dist/ of this
// machine's architecture; the limits are those of issue 3, "Figures".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/program"
	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/config"
)

func main() {
	dist := flag.String("dist", "dist/amd64", "the folder with FUNCTION/bootstrap")
	starts := flag.Int("starts", 21, "how often each is started")
	requests := flag.Int("requests", 500, "how many requests the last start of a group answers")
	under := flag.String("under", "", "an emulator of processors that starts each, such as qemu-aarch64-static: no limit holds then")
	flag.Parse()
	program.Main(context.Background(), "coldstart", func(ctx context.Context) error { return run(ctx, *dist, *under, *starts, *requests) })
}

// The limits, on a machine of two cores. What speaks MCP makes the library of JSON Schema ready as it starts, and functions/mcp
// is all groups in one.
const (
	maxStart    = 15 * time.Millisecond
	maxStartMCP = 25 * time.Millisecond
	maxMemoryKB = 40 << 10
)

func run(ctx context.Context, dist, under string, starts, requests int) error {
	binaries, err := filepath.Glob(filepath.Join(dist, "*", "bootstrap"))
	if err != nil || len(binaries) == 0 {
		return fmt.Errorf("no */bootstrap in %s: build them first", dist)
	}
	groups := map[string]bool{}
	for _, g := range functions.Groups() {
		groups[g.Name] = true
	}
	fmt.Println("| function | size, MB | start to first poll, ms: p50 | p99 | memory at the first poll, MB | after requests without a key, MB |")
	fmt.Println("|---|---|---|---|---|---|")
	var beyond bars.Beyond
	for _, binary := range binaries {
		name := filepath.Base(filepath.Dir(binary))
		answers := 0
		if groups[name] {
			answers = requests
		}
		f, err := measure(ctx, binary, under, starts, answers)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Println(f.row(name))
		if under != "" {
			continue
		}
		most := maxStart
		if strings.HasPrefix(name, "mcp") {
			most = maxStartMCP
		}
		if p50 := f.percentile(50); p50 > most {
			beyond.Add("%s: starts in %v, more than %v", name, p50, most)
		}
		if held := max(f.idleKB, f.busyKB); held > maxMemoryKB {
			beyond.Add("%s: holds %d kB, more than %d", name, held, maxMemoryKB)
		}
	}
	return beyond.Err()
}

// figures of one binary. busyKB is 0 for one that answered nothing.
type figures struct {
	bytes          int64
	starts         []time.Duration
	idleKB, busyKB int64
}

// percentile needs starts in rising order.
func (f figures) percentile(p int) time.Duration { return f.starts[(len(f.starts)-1)*p/100] }

func (f figures) row(name string) string {
	busy := "–"
	if f.busyKB > 0 {
		busy = megabytes(f.busyKB << 10)
	}
	return fmt.Sprintf("| %s | %s | %.1f | %.1f | %s | %s |", name, megabytes(f.bytes),
		milliseconds(f.percentile(50)), milliseconds(f.percentile(99)), megabytes(f.idleKB<<10), busy)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func measure(ctx context.Context, binary, under string, starts, requests int) (figures, error) {
	info, err := os.Stat(binary)
	if err != nil {
		return figures{}, fmt.Errorf("find the binary: %w", err)
	}
	f := figures{bytes: info.Size()}
	for range starts {
		took, peakKB, err := start(ctx, binary, under, 0)
		if err != nil {
			return figures{}, err
		}
		f.starts = append(f.starts, took)
		f.idleKB = max(f.idleKB, peakKB)
	}
	slices.Sort(f.starts)
	if requests > 0 {
		if _, f.busyKB, err = start(ctx, binary, under, requests); err != nil {
			return figures{}, err
		}
	}
	return f, nil
}

// startTimeout is how long one start with all of its requests may take.
const startTimeout = 30 * time.Second

// start runs the binary until it has answered the requests and polls again. It
// gives the time to its first poll and the most memory it was resident with.
func start(ctx context.Context, binary, under string, requests int) (took time.Duration, peakKB int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	host, err := listen(ctx, requests)
	if err != nil {
		return 0, 0, err
	}
	defer host.close()

	cmd := exec.CommandContext(ctx, binary)
	if under != "" {
		cmd = exec.CommandContext(ctx, under, binary) //nolint:gosec // G204: what was typed
	}
	cmd.Env = environment(host.address)
	from := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, fmt.Errorf("start: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	select {
	case polled := <-host.polled:
		took = polled.Sub(from)
	case err := <-exited:
		return 0, 0, fmt.Errorf("it ended before its first poll: %w", err)
	}
	select {
	case err = <-host.done:
	case err := <-exited:
		return 0, 0, fmt.Errorf("it ended while it answered: %w", err)
	}
	// Of the program alone: what the system tells of a process that has ended counts what it was forked from, which is larger.
	held, unknown := instance.MemoryOf(cmd.Process.Pid)
	_ = cmd.Process.Kill()
	<-exited
	return took, held.Most >> 10, errors.Join(err, unknown)
}

// environment is what Lambda and the infrastructure set. Nothing in it exists:
// no request that is made here gets as far as a table.
func environment(runtimeAPI string) []string {
	const nowhere = "http://127.0.0.1:9"
	return []string{
		"AWS_LAMBDA_RUNTIME_API=" + runtimeAPI,
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
		"AWS_REGION=eu-west-1",
		"AWS_ACCESS_KEY_ID=none",
		"AWS_SECRET_ACCESS_KEY=none",
		config.VarTable + "=none",
		config.VarBucket + "=none",
		config.VarKMSKey + "=none",
		config.VarDeploymentURL + "=https://{deployment}.apis.example.com",
		config.VarDynamoDBEndpoint + "=" + nowhere,
		config.VarS3Endpoint + "=" + nowhere,
	}
}
