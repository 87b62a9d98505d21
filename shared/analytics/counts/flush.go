package counts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// writeInterval is how often a process writes what it has counted: what it loses when it is killed, and half of the 20 s after which a call is
	// to be seen.
	writeInterval = 10 * time.Second
	// writeTimeout bounds one round of writing.
	writeTimeout = 5 * time.Second
	// lateWrites is how long a write is tried of which nobody knows whether it was made.
	lateWrites = time.Hour
	// lastWrite bounds the one when a process ends.
	lastWrite = 2 * time.Second
)

// batchRows bounds a transaction: whatever its rows are merged with, they are less than DynamoDB's 4 MB.
const batchRows = 3 << 20 / maxRowBytes

// batch is what one transaction writes: the same, however often it is tried, in whatever places.
type batch struct {
	seq   int64
	rows  []counted
	first time.Time // when it was first tried, zero for not yet
	// round and tries choose places.
	round, tries int
}

// counted is what was counted of a deployment, packed: batches wait while the table does not answer.
type counted struct {
	deployment string
	data       []byte
	calls      int64
}

// errMade is what a batch answers that was written before.
var errMade = errors.New("counts: these counts are written already")

// Run writes what was counted every ten seconds until ctx ends, and then all of it. An instance that can run in the background runs it; one
// that cannot (a Lambda) calls FlushWhenDue.
func (c *Collector) Run(ctx context.Context) {
	ticker := time.NewTicker(writeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.report(ctx, c.flushWithin(ctx, writeTimeout))
		case <-ctx.Done():
			c.report(ctx, c.flushWithin(context.WithoutCancel(ctx), lastWrite))
			return
		}
	}
}

func (c *Collector) flushWithin(ctx context.Context, most time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	return c.Drain(ctx)
}

func (c *Collector) report(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "what the gateway has counted could not be written, and is tried again", "error", err)
	}
	if lost := c.lost.Swap(0); lost > 0 {
		c.log.WarnContext(ctx, "requests were not counted: more deployments are called than are counted at once", "requests", lost)
	}
}

// Drain writes all that was counted. What could not be written is kept for the next time.
//
// It is what a gateway does before it ends, and every few seconds until then. A write whose answer was lost is tried again as it was, under the
// number that it had: the table has the number of this collector's last write, in the same transaction, so that none is made twice.
func (c *Collector) Drain(ctx context.Context) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	// What is older goes first. As long as that fails, the rest is counted on where it is, in a memory that is bounded.
	if err := c.write(ctx); err != nil {
		return err
	}
	err := c.prepare()
	return errors.Join(err, c.write(ctx))
}

// prepare makes batches of what was counted.
func (c *Collector) prepare() error {
	var failed []error
	taken := c.take()
	c.round++
	var rows []counted
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		calls := taken[name].calls()
		data, err := taken[name].pack()
		if err != nil {
			failed = append(failed, fmt.Errorf("count calls of %s: %w", name, err))
			continue
		}
		rows = append(rows, counted{name, data, calls})
	}
	for some := range slices.Chunk(rows, batchRows) {
		c.seq++
		c.batches = append(c.batches, batch{seq: c.seq, rows: some, round: c.round})
	}
	return errors.Join(failed...)
}

func (f *fresh) calls() int64 {
	n := int64(0)
	for _, s := range f.slots {
		s.each(func(_ caller, calls number) { n += calls.count })
	}
	return n
}

// write writes the batches, the oldest first, and forgets those that are written.
func (c *Collector) write(ctx context.Context) error {
	ctx = store.Undecided(ctx, "a row is replaced on condition of the version that was read, and the number of the write is this collector's alone")
	for len(c.batches) > 0 {
		b := &c.batches[0]
		now := c.now()
		if b.first.IsZero() {
			b.first = now
		}
		if age := now.Sub(b.first); age > lateWrites {
			// The number of the last write is kept for longer than this, but not for ever: after it nobody could tell whether it was made.
			c.log.WarnContext(ctx, "requests were not counted: the database has not taken them for an hour", slog.Int64("requests", b.calls()))
			c.batches = c.batches[1:]
			continue
		}
		if err := c.commit(ctx, b); err != nil && !errors.Is(err, errMade) {
			return fmt.Errorf("write what was counted: %w", err)
		}
		c.batches = c.batches[1:]
	}
	return nil
}

func (b *batch) calls() (n int64) {
	for _, r := range b.rows {
		n += r.calls
	}
	return n
}
