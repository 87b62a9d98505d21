package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/local/instance"
)

func crashes() []scenario {
	return []scenario{{
		title: "The embedded engine: a product that is killed",
		text: "The scenario kills the product with `kill -9` while 16 clients write, and starts it again. The product then has to contain every acknowledged write exactly once. Half of\n" +
			"the kills come while the engine writes tables (flushes and compactions) or while a backup is made. A backup that was cut off must not look complete.\n" +
			"The operating system keeps running: the tests of `shared/store/embedded` simulate power cuts.",
		options: "rounds=100 writers=16 seed=1",
		run: func(ctx context.Context, m *measurement) error {
			rounds := mixed(m.Number("rounds"), []beside{tables, backups})
			result, err := kills(ctx, m, rounds, m.Number("writers"), uint64(m.Number("seed"))) //nolint:gosec // G115: it is a seed
			if len(result.restarts) > 0 {
				m.Printf("%s", result)
			}
			if err == nil {
				err = result.meaningful()
			}
			return err
		},
	}}
}

// beside is the work that is in progress beside the writers when the product is killed.
type beside int

const (
	plain beside = iota
	tables
	backups
	besideCount
)

// String returns the name of the work in the table.
func (k beside) String() string {
	return [besideCount]string{"", "while the engine wrote tables", "while a backup was made"}[k]
}

// mixed returns n rounds. Every other round is plain, and the rest take the kinds in heavy in turn.
func mixed(n int, heavy []beside) []beside {
	out := make([]beside, n)
	for i := range out {
		if i%2 == 1 {
			out[i] = heavy[i/2%len(heavy)]
		}
	}
	return out
}

// killed is the result of the rounds.
type killed struct {
	// kills counts the kills by the work that should be in progress, and met those when it was.
	kills, met               [besideCount]int
	acknowledged, unanswered int
	lost, twice              []string
	restarts                 []time.Duration
}

// meaningful returns an error if nothing could be lost, or if no kill came when the right thing was under way: the engine may log its jobs
// in other words.
func (r killed) meaningful() error {
	const enough = 10 // kills, of which one at least comes at the right moment
	if r.acknowledged == 0 {
		return errors.New("no write was acknowledged, so that none could be lost")
	}
	for k, kills := range r.kills {
		if kills >= enough && r.met[k] == 0 {
			return fmt.Errorf("none of %d kills came %s", kills, beside(k))
		}
	}
	return nil
}

// String returns the table in Markdown.
func (r killed) String() string {
	median, longest := sorted(r.restarts)
	var of []string
	for k, n := range r.met {
		if k := beside(k); k != plain && r.kills[k] > 0 {
			of = append(of, fmt.Sprintf("%d %s", n, k))
		}
	}
	return fmt.Sprintf(`| kills of the product | of them | writes acknowledged | cut off | lost | twice | restart, median | longest |
|---|---|---|---|---|---|---|---|
| %d | %s | %d | %d | %d | %d | %s | %s |
`, len(r.restarts), strings.Join(of, ", "), r.acknowledged, r.unanswered, len(r.lost), len(r.twice), millis(median), millis(longest))
}

// The shortest and the longest time from the start of a round to its kill, or to the start of a backup.
const (
	shortestRound = 50 * time.Millisecond
	longestRound  = 600 * time.Millisecond
)

// The longest time from the start of the engine's job or of a backup to the kill. For backups, it is replaced by the time that the
// last complete one took.
const (
	longestIntoTables = 5 * time.Millisecond
	firstIntoBackup   = 100 * time.Millisecond
)

// crash is the product that is killed, with its writers and the results so far.
type crash struct {
	m       *measurement
	folder  string
	random  *rand.Rand
	writers []*writer
	product *manager
	log     *engineLog
	backup  time.Duration // how long a complete backup takes
	out     killed
}

// kills runs the rounds. It returns an error if the product does not start or does not respond as it should, if a write was lost or
// is there twice, or if a backup looks complete and is not.
func kills(ctx context.Context, m *measurement, rounds []beside, writers int, seed uint64) (killed, error) {
	r := crash{m: m, folder: "crash", backup: firstIntoBackup, random: rand.New(rand.NewPCG(seed, seed))} //nolint:gosec // G404: it has to be repeatable
	if err := r.start(ctx); err != nil {
		return killed{}, err
	}
	defer func() { r.product.Kill() }()
	if err := r.product.do(ctx, http.MethodPost, buckets, `{"name":"crash-bucket"}`, http.StatusOK, nil); err != nil {
		return killed{}, err
	}
	for i := range writers {
		r.writers = append(r.writers, newWriter(i, rand.New(rand.NewPCG(seed, uint64(i)+1)))) //nolint:gosec // G404, G115: as above
	}
	for i, k := range rounds {
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
	if slices.Contains(rounds, backups) {
		return r.out, r.verifyBackup(ctx)
	}
	return r.out, nil
}

func (r *crash) start(ctx context.Context) (err error) {
	if r.log, err = logOf(filepath.Join(r.m.Dir, r.folder, "data")); err != nil {
		return err
	}
	var turns *instance.Turns
	if r.product != nil { // it was started before
		turns = r.product.turns
	}
	started, err := manage(ctx, r.m, r.folder, turns)
	if err == nil {
		r.product = started
	}
	return err
}

// round lets the writers write, kills the product, starts it again, and looks for all writes.
func (r *crash) round(ctx context.Context, k beside) error {
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	for _, w := range r.writers {
		all.Go(func() { w.write(writing, r.product) })
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

// verify looks for all writes in the running product.
func (r *crash) verify(ctx context.Context) error {
	if err := r.product.verify(ctx, r.writers, &r.out); err != nil {
		return fmt.Errorf("look for the writes: %w", err)
	}
	if len(r.out.lost)+len(r.out.twice) > 0 {
		return fmt.Errorf("writes that are lost: %v, and that are there twice: %v", r.out.lost, r.out.twice)
	}
	return nil
}

// moment waits for the moment to kill the product. It returns the backup in progress, or nil if there is none.
func (r *crash) moment(ctx context.Context, k beside) (copied *copying, err error) {
	wait := shortestRound + r.within(longestRound-shortestRound)
	switch k {
	case tables:
		return nil, r.log.await(ctx, func() { time.Sleep(r.within(longestIntoTables)) })
	case backups:
		time.Sleep(wait)
		copied, err = r.startBackup(ctx)
		wait = r.within(r.backup)
	case plain, besideCount:
	}
	time.Sleep(wait)
	return copied, err
}

// within returns a random duration below d.
func (r *crash) within(d time.Duration) time.Duration {
	return time.Duration(r.random.Int64N(int64(d)))
}

// meeting counts a kill that came while the intended work was in progress.
func (r *crash) meeting(ctx context.Context, k beside, copied *copying) error {
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
	case plain, besideCount:
	}
	if met {
		r.out.met[k]++
	}
	return nil
}

// verifyBackup makes a backup after all writers have stopped, restores it in another folder, and looks for all writes there.
func (r *crash) verifyBackup(ctx context.Context) error {
	copied, err := r.startBackup(ctx)
	if err != nil {
		return err
	}
	made, err := copied.end(ctx)
	if err == nil && !made {
		err = errors.New("make a backup of a product that was not killed: the command failed")
	}
	if err != nil {
		return err
	}
	r.product.Kill()
	r.folder = filepath.Join(r.folder, restored)
	if err := r.start(ctx); err != nil {
		return fmt.Errorf("start with a restored backup: %w", err)
	}
	return r.verify(ctx)
}
