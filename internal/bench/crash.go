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

	"github.com/gatewright/gatewright/internal/system/instance"
)

func crashes() []scenario {
	return []scenario{{
		title: "The embedded engine: a product that is killed",
		text: "The scenario kills the product with `kill -9` while 16 clients write, and starts it again. The product then " +
			"has to contain every acknowledged write exactly once. Half of\n" +
			"the kills come while the engine writes tables (flushes and compactions) or while a backup is made. A backup that " +
			"was cut off must not look complete.\n" +
			"The operating system keeps running: the tests of `shared/core/store/embedded` simulate power cuts.",
		options: "rounds=100 writers=16 seed=1",
		run: func(ctx context.Context, m *measurement) error {
			rounds := mixed(m.Number("rounds"), []background{writesTables, makesBackup})
			//nolint:gosec // G115: the number is a seed
			result, err := runRounds(ctx, m, rounds, m.Number("writers"), uint64(m.Number("seed")))
			if len(result.restarts) > 0 {
				m.Printf("%s", result)
			}
			if err == nil {
				err = result.check()
			}
			return err
		},
	}}
}

// background is the kind of work that is in progress when the product is killed, in addition to the writers.
type background int

const (
	noBackground background = iota
	writesTables
	makesBackup
	backgroundCount
)

// String returns the name of the work in the table.
func (b background) String() string {
	return [backgroundCount]string{"", "while the engine wrote tables", "while a backup was made"}[b]
}

// mixed returns the background work of n rounds. Every second round has a kind from heavy, in turn; the others have
// noBackground.
func mixed(n int, heavy []background) []background {
	out := make([]background, n)
	for i := range out {
		if i%2 == 1 {
			out[i] = heavy[i/2%len(heavy)]
		}
	}
	return out
}

// crashResult is the result of the rounds.
type crashResult struct {
	// kills is the number of kills for each kind of background work. hits is the number of these kills at which the
	// work was in progress.
	kills, hits [backgroundCount]int
	// acknowledged is the number of writes with a success response. unacknowledged is the number of writes that may have
	// happened or not.
	acknowledged, unacknowledged int
	// lost and duplicates are the objects that are missing after a restart, and those that are listed more than once.
	lost, duplicates []string
	restarts         []time.Duration
}

// check returns an error if no write was acknowledged, because then none could be lost. It also returns an error if a
// kind of work has at least minKills kills and none of them came while that work was in progress: then the engine may
// have changed the wording of its log.
func (r crashResult) check() error {
	const minKills = 10 // a kind of work with so many kills must have a hit
	if r.acknowledged == 0 {
		return errors.New("no write was acknowledged, so none could be lost")
	}
	for k, kills := range r.kills {
		if kills >= minKills && r.hits[k] == 0 {
			return fmt.Errorf("none of %d kills came %s", kills, background(k))
		}
	}
	return nil
}

// String returns the table in Markdown.
func (r crashResult) String() string {
	median, longest := medianAndLongest(r.restarts)
	var hits []string
	for k, n := range r.hits {
		if k := background(k); k != noBackground && r.kills[k] > 0 {
			hits = append(hits, fmt.Sprintf("%d %s", n, k))
		}
	}
	return fmt.Sprintf(
		`| kills of the product | of them | writes acknowledged | cut off | lost | twice | restart, median | longest |
|---|---|---|---|---|---|---|---|
| %d | %s | %d | %d | %d | %d | %s | %s |
`, len(r.restarts), strings.Join(hits, ", "), r.acknowledged, r.unacknowledged, len(r.lost), len(r.duplicates),
		millis(median), millis(longest))
}

// The shortest and the longest time from the start of a round to its kill, or to the start of a backup. A round with
// the background work writesTables waits for a job of the engine instead.
const (
	minRound = 50 * time.Millisecond
	maxRound = 600 * time.Millisecond
)

// The longest time from the moment when an engine job is found, or from the start of a backup, to the kill. The time
// for backups applies only until a backup was completed; then the duration of the last complete backup applies.
const (
	maxIntoTables   = 5 * time.Millisecond
	firstIntoBackup = 100 * time.Millisecond
)

// crash is the product that is killed, with its writers and the results so far.
type crash struct {
	m       *measurement
	folder  string
	random  *rand.Rand
	writers []*writer
	product *manager
	log     *engineLog
	backup  time.Duration // how long the last complete backup took
	result  crashResult
}

// runRounds runs the rounds with a number of writers. It returns an error if the product does not start or sends an
// unexpected response, if a write was lost or exists twice, or if an incomplete backup looks complete.
func runRounds(
	ctx context.Context, m *measurement, rounds []background, writers int, seed uint64,
) (crashResult, error) {
	//nolint:gosec // G404: a seed makes the rounds repeatable
	r := crash{m: m, folder: "crash", backup: firstIntoBackup, random: rand.New(rand.NewPCG(seed, seed))}
	if err := r.start(ctx); err != nil {
		return crashResult{}, err
	}
	defer func() { r.product.Kill() }()
	if err := r.product.do(ctx, http.MethodPost, buckets, `{"name":"crash-bucket"}`, http.StatusOK, nil); err != nil {
		return crashResult{}, err
	}
	for i := range writers {
		//nolint:gosec // G404, G115: as above
		r.writers = append(r.writers, newWriter(i, rand.New(rand.NewPCG(seed, uint64(i)+1))))
	}
	for i, k := range rounds {
		if err := r.round(ctx, k); err != nil {
			return r.result, fmt.Errorf("round %d: %w", i, err)
		}
	}
	for _, w := range r.writers {
		r.result.acknowledged += w.acknowledged
		r.result.unacknowledged += w.unacknowledged
		if w.failure != nil {
			return r.result, fmt.Errorf("writer %d: %w", w.number, w.failure)
		}
	}
	if slices.Contains(rounds, makesBackup) {
		return r.result, r.verifyBackup(ctx)
	}
	return r.result, nil
}

// start starts the product, or starts it again, and opens the log of its engine behind the lines of earlier runs.
func (cr *crash) start(ctx context.Context) (err error) {
	if cr.log, err = openEngineLog(filepath.Join(cr.m.Dir, cr.folder, "data")); err != nil {
		return err
	}
	var turns *instance.KeyRotation
	if cr.product != nil { // an earlier start has created the account keys
		turns = cr.product.turns
	}
	started, err := startManager(ctx, cr.m, cr.folder, turns)
	if err == nil {
		cr.product = started
	}
	return err
}

// round runs the writers, kills the product, starts it again, and checks that no write was lost.
func (cr *crash) round(ctx context.Context, k background) error {
	writeCtx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	for _, w := range cr.writers {
		wg.Go(func() { w.write(writeCtx, cr.product) })
	}
	backup, err := cr.waitForKill(ctx, k)
	cr.product.Kill()
	cr.result.kills[k]++
	stop()
	wg.Wait()
	if err != nil {
		return err
	}
	if err := cr.countHit(ctx, k, backup); err != nil {
		return err
	}
	startedAt := time.Now()
	if err := cr.start(ctx); err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	cr.result.restarts = append(cr.result.restarts, time.Since(startedAt))
	return cr.verify(ctx)
}

// verify checks that the running product has each acknowledged write exactly once.
func (cr *crash) verify(ctx context.Context) error {
	if err := cr.product.verify(ctx, cr.writers, &cr.result); err != nil {
		return fmt.Errorf("read the writes: %w", err)
	}
	if len(cr.result.lost)+len(cr.result.duplicates) > 0 {
		return fmt.Errorf("lost writes: %v, writes that are there more than once: %v", cr.result.lost,
			cr.result.duplicates)
	}
	return nil
}

// waitForKill waits for the moment to kill the product. It returns the backup in progress, or nil.
func (cr *crash) waitForKill(ctx context.Context, k background) (backup *backupCommand, err error) {
	wait := minRound + cr.randomBelow(maxRound-minRound)
	switch k {
	case writesTables:
		return nil, cr.log.waitForJob(ctx, func() { time.Sleep(cr.randomBelow(maxIntoTables)) })
	case makesBackup:
		time.Sleep(wait)
		backup, err = cr.startBackup(ctx)
		wait = cr.randomBelow(cr.backup)
	case noBackground, backgroundCount:
	}
	time.Sleep(wait)
	return backup, err
}

// randomBelow returns a random duration below d.
func (cr *crash) randomBelow(d time.Duration) time.Duration {
	return time.Duration(cr.random.Int64N(int64(d)))
}

// countHit increments hits[k] if the background work k was in progress at the kill.
func (cr *crash) countHit(ctx context.Context, k background, backup *backupCommand) error {
	hit := true
	switch k {
	case writesTables:
		working, err := cr.log.working()
		if err != nil {
			return err
		}
		hit = working
	case makesBackup:
		created, err := backup.wait(ctx)
		if err != nil {
			return err
		}
		if hit = !created; created {
			cr.backup = backup.elapsed
		}
	case noBackground, backgroundCount:
	}
	if hit {
		cr.result.hits[k]++
	}
	return nil
}

// verifyBackup makes a backup after all writers have stopped, restores it in another folder, and checks that no write
// is missing there.
func (cr *crash) verifyBackup(ctx context.Context) error {
	backup, err := cr.startBackup(ctx)
	if err != nil {
		return err
	}
	created, err := backup.wait(ctx)
	if err == nil && !created {
		err = errors.New("make a backup of a product that was not killed: the command failed")
	}
	if err != nil {
		return err
	}
	cr.product.Kill()
	cr.folder = filepath.Join(cr.folder, restored)
	if err := cr.start(ctx); err != nil {
		return fmt.Errorf("start with a restored backup: %w", err)
	}
	return cr.verify(ctx)
}
