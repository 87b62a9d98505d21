// Command clientstart measures what the client costs before it does anything: its size, and the time of its --help, against a
// program of cobra that does nothing; the server beside it, for what the client would be with everything linked.
//
//	go run ./internal/clientstart
//
// The programs are built as `make cli` builds them and started in turns, so that what else the machine does meets all of
// them. It fails when a figure is beyond its bar (issue 16, part 2). There is only this file; bare is the program that does nothing.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/gobuild"
)

// The bars.
const (
	mostBytes = 25_000_000 // of the client
	mostTimes = 4          // of the time that the bare program takes, at the median
)

// program is one that is measured.
type program struct {
	pkg   string
	path  string
	bytes int64
	took  []time.Duration // by run
}

func main() {
	runs := flag.Int("runs", 21, "how often each is started, 1 at least")
	flag.Parse()
	bars.Main(context.Background(), "clientstart", func(ctx context.Context, dir string, table *bars.Table) error {
		bare, client, server := &program{pkg: "./internal/clientstart/bare"}, &program{pkg: gobuild.Client}, &program{pkg: "./cmd/gatewright-server"}
		all := []*program{bare, client, server}
		for _, p := range all {
			if err := p.build(ctx, dir); err != nil {
				return err
			}
		}
		for n := range max(*runs, 1) + 1 {
			for _, p := range all {
				took, err := p.help(ctx)
				if err != nil {
					return err
				}
				if n > 0 { // the first one reads the file from the disk
					p.took = append(p.took, took)
				}
			}
		}
		times := ratio(client.took, bare.took)
		table.Add("the client, stripped", fmt.Sprintf("%d MB", mostBytes/1_000_000), megabytes(client.bytes), client.bytes <= mostBytes)
		table.Add("its `--help`: times a bare program of cobra", fmt.Sprint(mostTimes), fmt.Sprintf("%.1f", times), times <= mostTimes)
		table.Add("its `--help`, median", "", client.median().String(), true)
		table.Add("the bare program: size, and `--help`", "", megabytes(bare.bytes)+", "+bare.median().String(), true)
		table.Add("the server: size, and `--help`", "", megabytes(server.bytes)+", "+server.median().String(), true)
		table.Add("the server's `--help`: times the bare program's", "", fmt.Sprintf("%.1f", ratio(server.took, bare.took)), true)
		return nil
	})
}

// build builds it into a folder, as `make cli` does.
func (p *program) build(ctx context.Context, dir string) error {
	p.path = filepath.Join(dir, filepath.Base(p.pkg))
	if err := gobuild.Build(ctx, ".", p.pkg, p.path); err != nil {
		return err
	}
	info, err := os.Stat(p.path)
	if err != nil {
		return fmt.Errorf("look at %s: %w", p.pkg, err)
	}
	p.bytes = info.Size()
	return nil
}

// help is how long its --help takes, from before the process is made until it is gone.
func (p *program) help(ctx context.Context) (time.Duration, error) {
	cmd := exec.CommandContext(ctx, p.path, "--help") //nolint:gosec // built here
	from := time.Now()
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("%s --help: %w", p.pkg, err)
	}
	return time.Since(from), nil
}

func (p *program) median() time.Duration { return median(p.took).Round(100 * time.Microsecond) }

// ratio is the median of what one took by what the other took in the same turn, of as many runs each and one at least.
func ratio(one, other []time.Duration) float64 {
	times := make([]float64, len(one))
	for i := range one {
		times[i] = float64(one[i]) / float64(other[i])
	}
	return median(times)
}

// median is the middle one, of one at least; of an even number the later one of the two.
func median[T cmp.Ordered](all []T) T { return slices.Sorted(slices.Values(all))[len(all)/2] }

func megabytes(bytes int64) string { return fmt.Sprintf("%.1f MB", float64(bytes)/1e6) }
