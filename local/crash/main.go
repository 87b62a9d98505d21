// Command crash kills the running product in the middle of writes, again and
// again, and counts what became of them: every write that was acknowledged is
// there after the next start, and none is there twice.
//
// What it is not: a test of a machine that loses its power; the kill is
// SIGKILL, and the operating system lives on. `make bench` runs 20 rounds,
// its own test two.
//
// Read main.go for the rounds, writer.go for what is written and how it is
// looked for again, and product.go for the process that is killed.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"
)

func main() {
	binary := flag.String("binary", "", "the product's binary, as `go build ./local` makes it")
	rounds := flag.Int("rounds", 20, "how often to kill it")
	writers := flag.Int("writers", 8, "how many write at once")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "decides what is written and when it is killed")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	result, err := run(ctx, config{binary: *binary, rounds: *rounds, writers: *writers, seed: *seed})
	if err != nil {
		fmt.Fprintf(os.Stderr, "crash: %v (seed %d)\n", err, *seed)
		os.Exit(1)
	}
	fmt.Print(result)
}

type config struct {
	binary  string
	rounds  int
	writers int
	seed    uint64
}

// report is what the rounds have shown.
type report struct {
	kills                    int
	acknowledged, unanswered int
	lost, twice              []string
	restarts                 []time.Duration
}

// String is the report as Markdown.
func (r report) String() string {
	slices.Sort(r.restarts)
	return fmt.Sprintf(`| kills of the product | writes acknowledged | cut off | lost | twice | restart, median | longest |
|---|---|---|---|---|---|---|
| %d | %d | %d | %d | %d | %v | %v |
`, r.kills, r.acknowledged, r.unanswered, len(r.lost), len(r.twice),
		r.restarts[len(r.restarts)/2].Round(time.Millisecond), r.restarts[len(r.restarts)-1].Round(time.Millisecond))
}

// The time between a round's first write and its kill.
const (
	shortestRound = 50 * time.Millisecond
	longestRound  = 600 * time.Millisecond
)

// run makes the rounds. Its error is a product that does not start or does not
// answer as it should, or a write that was lost or made twice.
func run(ctx context.Context, c config) (report, error) {
	random := rand.New(rand.NewPCG(c.seed, c.seed)) //nolint:gosec // G404: it has to be repeatable
	dir, err := os.MkdirTemp("", "gatewright-crash-*")
	if err != nil {
		return report{}, fmt.Errorf("make a data directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	p, err := start(ctx, c.binary, dir)
	if err != nil {
		return report{}, err
	}
	defer func() { p.Kill() }()
	if err := p.client.createBucket(ctx); err != nil {
		return report{}, err
	}
	writers := make([]*writer, c.writers)
	for i := range writers {
		writers[i] = newWriter(i, rand.New(rand.NewPCG(c.seed, uint64(i)+1))) //nolint:gosec // G404, G115: as above
	}
	out := report{}
	for round := range c.rounds {
		writing, stop := context.WithCancel(ctx)
		var all sync.WaitGroup
		for _, w := range writers {
			all.Go(func() { w.write(writing, p.client) })
		}
		time.Sleep(shortestRound + time.Duration(random.Int64N(int64(longestRound-shortestRound))))
		p.Kill()
		out.kills++
		stop()
		all.Wait()
		began := time.Now()
		if p, err = start(ctx, c.binary, dir); err != nil {
			return out, fmt.Errorf("start again after kill %d: %w", out.kills, err)
		}
		out.restarts = append(out.restarts, time.Since(began))
		if err := p.client.verify(ctx, writers, &out); err != nil {
			return out, fmt.Errorf("look for the writes after round %d: %w", round, err)
		}
		if len(out.lost)+len(out.twice) > 0 {
			return out, fmt.Errorf("after round %d: lost %v, twice %v", round, out.lost, out.twice)
		}
	}
	for _, w := range writers {
		out.acknowledged += w.acknowledged
		out.unanswered += w.unanswered
		if w.failure != nil {
			return out, fmt.Errorf("writer %d: %w", w.number, w.failure)
		}
	}
	return out, nil
}
