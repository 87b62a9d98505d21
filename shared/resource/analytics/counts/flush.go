package counts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// writeInterval is the time between two writes of a process. A process that is killed loses the counts since its
	// last write. The interval is half of the 20 s within which a call must become visible in reports.
	writeInterval = 10 * time.Second
	// writeTimeout limits one write.
	writeTimeout = 5 * time.Second
	// retryWindow is the time for which a failed write is retried.
	retryWindow = time.Hour
	// shutdownTimeout limits the write when a process ends, and each write of FlushWhenDue.
	shutdownTimeout = 2 * time.Second
)

// maxBatchRows is the maximum number of rows in a transaction. Even if each row has maxRowBytes after merging, the
// transaction is smaller than DynamoDB's 4 MB.
const maxBatchRows = 3 << 20 / maxRowBytes

// batch has the counts that one transaction adds to the table. Each attempt writes the same counts, but chooses other
// buckets.
type batch struct {
	seq          int64
	rows         []batchRow
	firstAttempt time.Time // time of the first attempt, zero before it
	// round and attempts select the buckets.
	round, attempts int
}

// batchRow contains the counts of a deployment, encoded to save memory while the table is unavailable.
type batchRow struct {
	deployment string
	data       []byte
	calls      int64
}

// errAlreadyWritten is returned for a batch that was written by an earlier attempt.
var errAlreadyWritten = errors.New("counts: these counts are written already")

// Run writes the counts every writeInterval until ctx ends, and then all remaining counts. A gateway that runs as a
// process calls Run. A Lambda cannot run in the background, and calls FlushWhenDue instead.
func (c *Collector) Run(ctx context.Context) {
	ticker := time.NewTicker(writeInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.logResult(ctx, c.flushWithTimeout(ctx, writeTimeout))
		case <-ctx.Done():
			c.logResult(ctx, c.flushWithTimeout(context.WithoutCancel(ctx), shutdownTimeout))
			return
		}
	}
}

func (c *Collector) flushWithTimeout(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return c.Drain(ctx)
}

// logResult logs the error of a write, unless ctx has ended. It also logs the number of lost calls and operations.
func (c *Collector) logResult(ctx context.Context, err error) {
	if err != nil && ctx.Err() == nil {
		c.log.WarnContext(ctx, "what the gateway has counted could not be written, and is tried again", "error", err)
	}
	if lost := c.lost.Swap(0); lost > 0 {
		c.log.WarnContext(ctx, "requests were not counted: more deployments are called than are counted at once", "requests",
			lost)
	}
}

// Drain writes all counts. If a write fails, Drain keeps the counts for the next call, for at most retryWindow.
//
// Run calls Drain every writeInterval and before it returns, and FlushWhenDue calls it when a write is due. Each batch
// has a sequence number (seq). The transaction that writes a batch also stores its number in the table. If the result
// of a write is unknown, the batch is written again with the same number, and the table rejects it if it was written
// before.
func (c *Collector) Drain(ctx context.Context) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	// Older batches are written first. While that fails, new counts accumulate in the collector, whose memory is limited.
	if err := c.write(ctx); err != nil {
		return err
	}
	err := c.prepare()
	return errors.Join(err, c.write(ctx))
}

// prepare moves the counts of the collector into batches.
func (c *Collector) prepare() error {
	var errs []error
	pending := c.reset()
	c.round++
	var rows []batchRow
	for _, name := range slices.Sorted(maps.Keys(pending)) {
		calls := pending[name].calls()
		data, err := pending[name].pack()
		if err != nil {
			errs = append(errs, fmt.Errorf("count calls of %s: %w", name, err))
			continue
		}
		rows = append(rows, batchRow{name, data, calls})
	}
	for chunk := range slices.Chunk(rows, maxBatchRows) {
		c.seq++
		c.batches = append(c.batches, batch{seq: c.seq, rows: chunk, round: c.round})
	}
	return errors.Join(errs...)
}

// calls returns the number of calls. GraphQL operations do not count in addition.
func (c *pendingCounts) calls() int64 {
	n := int64(0)
	for _, s := range c.intervals {
		s.each(func(_ caller, calls counter) { n += calls.count })
	}
	return n
}

// write writes the batches, the oldest first, until a write fails. It removes each batch that was written. It drops a
// batch whose first attempt was more than retryWindow ago, and logs the loss.
func (c *Collector) write(ctx context.Context) error {
	ctx = store.WithoutReadSet(ctx, "a row is replaced only if its version has not changed since it was read, and only "+
		"this collector writes its sequence number")
	for len(c.batches) > 0 {
		b := &c.batches[0]
		now := c.now()
		if b.firstAttempt.IsZero() {
			b.firstAttempt = now
		}
		if elapsed := now.Sub(b.firstAttempt); elapsed > retryWindow {
			// The table keeps the number of the last write for longer than retryWindow, but not forever. Without the
			// number, a retry could count the batch twice.
			c.log.WarnContext(ctx, "requests were not counted: the database has not taken them for an hour",
				slog.Int64("requests", b.calls()))
			c.batches = c.batches[1:]
			continue
		}
		if err := c.commit(ctx, b); err != nil && !errors.Is(err, errAlreadyWritten) {
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
