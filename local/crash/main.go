// Command crash kills the running product in the middle of writes, again and
// again, and counts what became of them: every write that was acknowledged is
// there after the next start, and none is there twice. Half of the kills come
// while the engine writes tables (a flush or a compaction), or while a backup is
// made: what is left of one that was cut off must not look like a backup.
//
// What it is not: a test of a machine that loses its power. The kill is SIGKILL,
// and what the process had handed to the operating system is written whether or
// not it waited for the disk; power cuts are simulated in the tests of
// shared/store/embedded. `make bench` runs 100 rounds, its own test two and one of
// each kind.
//
// Read main.go for the rounds, writer.go for what is written, verify.go for how it
// is looked for again, engine.go and copying.go for what else is under way, and
// product.go for the process that is killed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/internal/program"
	"github.com/gatewright/gatewright/local/instance"
)

func main() {
	binary := flag.String("binary", "", "the product's binary, as `go build ./local` makes it")
	rounds := flag.Int("rounds", 20, "how often to kill it")
	writers := flag.Int("writers", 16, "how many write at once")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "decides what is written and when it is killed")
	flag.Parse()
	program.Main(context.Background(), "crash", func(ctx context.Context) error {
		heavy := []kind{tables}
		if hasBackup(ctx, *binary) {
			heavy = append(heavy, backups)
		}
		result, err := run(ctx, config{binary: *binary, rounds: mixed(*rounds, heavy), writers: *writers, seed: *seed})
		if err != nil {
			return fmt.Errorf("%w (seed %d)", err, *seed)
		}
		fmt.Print(result)
		return nil
	})
}

type config struct {
	binary  string
	rounds  []kind
	writers int
	seed    uint64
}

// kind is what is under way beside the writers when the product is killed.
type kind int

const (
	plain kind = iota
	tables
	backups
	kindCount
)

// String is the kind in the report.
func (k kind) String() string {
	return [kindCount]string{"", "while the engine wrote tables", "while a backup was made"}[k]
}

// mixed gives n rounds: half of them are plain, the others have each heavy kind in
// turn.
func mixed(n int, heavy []kind) []kind {
	out := make([]kind, n)
	for i := range out {
		if i%2 == 1 {
			out[i] = heavy[i/2%len(heavy)]
		}
	}
	return out
}

// report is what the rounds have shown.
type report struct {
	// kills, by what they were meant to meet, and those that met it.
	kills, met               [kindCount]int
	acknowledged, unanswered int
	lost, twice              []string
	restarts                 []time.Duration
}

// String is the report as Markdown.
func (r report) String() string {
	slices.Sort(r.restarts)
	var of []string
	for k, n := range r.met {
		if k := kind(k); k != plain && r.kills[k] > 0 {
			of = append(of, fmt.Sprintf("%d %s", n, k))
		}
	}
	return fmt.Sprintf(`| kills of the product | of them | writes acknowledged | cut off | lost | twice | restart, median | longest |
|---|---|---|---|---|---|---|---|
| %d | %s | %d | %d | %d | %d | %v | %v |
`, len(r.restarts), strings.Join(of, ", "), r.acknowledged, r.unanswered, len(r.lost), len(r.twice),
		r.restarts[len(r.restarts)/2].Round(time.Millisecond), r.restarts[len(r.restarts)-1].Round(time.Millisecond))
}

// The time between a round's first write and its kill, or what the kill has to meet.
const (
	shortestRound = 50 * time.Millisecond
	longestRound  = 600 * time.Millisecond
)

// The longest time from the beginning of what a kill has to meet to the kill: of a
// backup it is what the last whole one took.
const (
	longestIntoTables = 5 * time.Millisecond
	firstIntoBackup   = 100 * time.Millisecond
)

// crash is a run.
type crash struct {
	config
	dir     string
	random  *rand.Rand
	writers []*writer
	product *product
	log     *engineLog
	backup  time.Duration // that a whole one takes
	out     report
}

// run makes the rounds. Its error is a product that does not start or does not
// answer as it should, a write that was lost or made twice, or a backup that is
// not what it looks like.
func run(ctx context.Context, c config) (report, error) {
	dir, err := os.MkdirTemp("", "gatewright-crash-*")
	if err != nil {
		return report{}, fmt.Errorf("make a data directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	r := crash{config: c, dir: dir, backup: firstIntoBackup, random: rand.New(rand.NewPCG(c.seed, c.seed))} //nolint:gosec // G404: it has to be repeatable
	if err := r.start(ctx); err != nil {
		return report{}, err
	}
	defer func() { r.product.Kill() }()
	if err := r.product.client.createBucket(ctx); err != nil {
		return report{}, err
	}
	for i := range c.writers {
		r.writers = append(r.writers, newWriter(i, rand.New(rand.NewPCG(c.seed, uint64(i)+1)))) //nolint:gosec // G404, G115: as above
	}
	for i, k := range c.rounds {
		if err := r.round(ctx, k); err != nil {
			return r.out, fmt.Errorf("round %d: %w", i, err)
		}
	}
	for _, w := range r.writers {
		r.out.acknowledged += w.acknowledged
		r.out.unanswered += w.unanswered
		if w.failure != nil {
			return r.out, fmt.Errorf("writer %d: %w", w.number, w.failure)
		}
	}
	if slices.Contains(c.rounds, backups) {
		return r.out, r.verifyBackup(ctx)
	}
	return r.out, nil
}

func (r *crash) start(ctx context.Context) (err error) {
	if r.log, err = logOf(filepath.Join(r.dir, "data")); err != nil {
		return err
	}
	var turns *instance.Turns
	if r.product != nil { // it was started before
		turns = r.product.client.turns
	}
	started, err := start(ctx, r.binary, r.dir, turns)
	if err == nil {
		r.product = started
	}
	return err
}

// round has the writers write, kills the product, starts it again, and looks for
// what was written.
func (r *crash) round(ctx context.Context, k kind) error {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	for _, w := range r.writers {
		all.Go(func() { w.write(writing, r.product.client) })
	}
	copied, err := r.moment(ctx, k)
	r.product.Kill()
	r.out.kills[k]++
	stop()
	all.Wait()
	if err != nil {
		return err
	}
	if err := r.meeting(ctx, k, copied); err != nil {
		return err
	}
	began := time.Now()
	if err := r.start(ctx); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	r.out.restarts = append(r.out.restarts, time.Since(began))
	return r.verify(ctx)
}

// verify looks for what was written in the product that runs.
func (r *crash) verify(ctx context.Context) error {
	if err := r.product.client.verify(ctx, r.writers, &r.out); err != nil {
		return fmt.Errorf("look for the writes: %w", err)
	}
	if len(r.out.lost)+len(r.out.twice) > 0 {
		return fmt.Errorf("lost %v, twice %v", r.out.lost, r.out.twice)
	}
	return nil
}

// moment waits until the product shall be killed. It gives the backup that is made.
func (r *crash) moment(ctx context.Context, k kind) (copied *copying, err error) {
	wait := shortestRound + r.within(longestRound-shortestRound)
	switch k {
	case tables:
		return nil, r.log.await(ctx, func() { time.Sleep(r.within(longestIntoTables)) })
	case backups:
		time.Sleep(wait)
		copied, err = startBackup(ctx, r.binary, r.product)
		wait = r.within(r.backup)
	case plain, kindCount:
	}
	time.Sleep(wait)
	return copied, err
}

// within gives a random time below d.
func (r *crash) within(d time.Duration) time.Duration {
	return time.Duration(r.random.Int64N(int64(d)))
}

// meeting counts a kill that met what it was meant to.
func (r *crash) meeting(ctx context.Context, k kind, copied *copying) error {
	met := true
	switch k {
	case tables:
		working, err := r.log.working()
		if err != nil {
			return err
		}
		met = working
	case backups:
		made, err := copied.end(ctx)
		if err != nil {
			return err
		}
		if met = !made; made {
			r.backup = copied.took
		}
	case plain, kindCount:
	}
	if met {
		r.out.met[k]++
	}
	return nil
}

// verifyBackup backs the product up once nobody writes, restores that elsewhere,
// and looks for all writes there.
func (r *crash) verifyBackup(ctx context.Context) error {
	copied, err := startBackup(ctx, r.binary, r.product)
	if err != nil {
		return err
	}
	made, err := copied.end(ctx)
	if err == nil && !made {
		err = errors.New("a product that nobody killed cannot be backed up")
	}
	if err != nil {
		return err
	}
	r.product.Kill()
	r.dir = filepath.Join(r.dir, restored)
	if err := r.start(ctx); err != nil {
		return fmt.Errorf("start over a backup: %w", err)
	}
	return r.verify(ctx)
}
