// Package counts counts calls and GraphQL operations, which package analytics defines. It stores the numbers in the
// table, and reads them for reports.
//
// A gateway has one [Collector]. To count a request, the collector holds a lock for some nanoseconds, and does no I/O.
// Every few seconds the collector writes its counts: one row for each deployment. The number of these rows per
// deployment is limited. If the row exists already, the gateway adds its counts to the row. A [Rollup] adds up these
// rows once a minute, into rows of five minutes, hours, days and weeks. The same transaction removes the source rows,
// so that each row counts once even if a process dies in between. A [Reader] adds up the rows that cover a [Window] and
// the rows that are not rolled up yet.
//
// The counts are not metering: no request is charged or refused because of them, and a gateway that crashes loses the counts since
// its last write. They are not a log, either: only the fields of [RecentCall] are stored for a single request, for
// about a day.
//
// Read this file first, then flush.go, commit.go, rollup.go, read.go and report.go. tally.go defines the contents of a
// row, frequent.go selects the names that a row keeps, encode.go defines the encoding, and table.go the rows in the
// table. pace.go decides when a Lambda writes, and recent.go keeps the newest calls.
// docs/decisions/0044-rows-of-counts-are-rolled-up.md contains the reasons.
package counts

import (
	"cmp"
	"hash/maphash"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// These are the limits of a collector's memory between two writes, some 150 MB at worst. Calls above maxAllRecent are
// counted, but Recent lists such a call only if it replaces an older call of its deployment, or is the deployment's
// first call. Calls and operations of deployments above maxDeployments are lost. Operations and callers above their
// limits count under Other: first those of the tallies with the most names.
const (
	maxDeployments   = 16_384
	maxAllOperations = 16_384
	maxAllCallers    = 262_144
	maxAllRecent     = 262_144
	// maxMemoryIntervals is the maximum number of intervals of a deployment. Usually there are at most two, unless
	// requests take minutes, writes fail, or a clock jumps.
	maxMemoryIntervals = 4
)

// Options are the dependencies of a Collector. All are required.
type Options struct {
	Table *store.Table
	// Now is the clock of this instance. The collector uses it for the times of writes, retries and expiry.
	Now func() time.Time
	// Random is the source of the collector's id: crypto/rand.Reader outside tests.
	Random io.Reader
	// Log receives a message when counts are lost.
	Log *slog.Logger
}

// Collector counts calls and operations. An instance has one. It is safe for concurrent use. Call and Operation do no
// I/O and return no error.
type Collector struct {
	table *store.Table
	now   func() time.Time
	log   *slog.Logger
	id    string

	seed   maphash.Seed
	shards [shardCount]shard
	// recent is the number of calls in the recentCalls of all deployments together. lost is the number of calls and
	// operations of deployments above maxDeployments that are not logged yet.
	recent, lost atomic.Int64

	pacer pacer
	// writeMu is held during a write. It guards the fields below.
	writeMu sync.Mutex
	seq     int64 // the number of the last batch
	batches []batch
	round   int // the number of calls of prepare so far. It selects the buckets of a batch.
	buckets int // the number of pending rows of a deployment: bucketCount, except in tests
}

// shardCount is the number of locks, so that instances with many cores do not compete for one.
const shardCount = 16

// shard has the counts of some of the deployments since the last write.
type shard struct {
	mu          sync.Mutex
	deployments map[string]*pendingCounts
	// operations and callers are the numbers of operations and callers in all tallies of the shard.
	operations, callers int
}

// New returns an empty Collector.
func New(o Options) *Collector {
	const digits = 16 // enough that no two collectors have the same id
	c := &Collector{
		table: o.Table, now: o.Now, log: o.Log, id: ids.NewSource(o.Random, o.Now).Digits(digits),
		seed: maphash.MakeSeed(), pacer: pacer{tokens: maxBurst, refilledAt: o.Now()}, buckets: bucketCount,
	}
	for i := range c.shards {
		c.shards[i].deployments = map[string]*pendingCounts{}
	}
	return c
}

// Call counts one request.
func (c *Collector) Call(call analytics.Call) {
	sh := c.shard(call.Deployment.Name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	pending := c.pendingFor(sh, call.Deployment.Name)
	if pending == nil {
		return
	}
	consumer := call.Consumer
	if len(consumer) > MaxConsumerBytes {
		consumer = Other
	}
	t := sh.tallyAt(pending, call.At)
	if t.addCalls(caller{consumer, call.Status}, counter{count: 1}) {
		sh.callers++
		sh.limitCallers(t)
	}
	entry := RecentCall{
		Consumer: consumer, Method: normalizeMethod(call.Method), Route: call.Route, Status: call.Status,
		Policy: call.Policy, At: call.At,
	}
	if pending.recent.add(entry, c.recent.Load() < maxAllRecent) {
		c.recent.Add(1)
	}
	c.pacer.calls.Add(1)
}

// Operation counts one GraphQL operation.
func (c *Collector) Operation(o analytics.Operation) {
	name := o.Name
	switch {
	case name == "":
		name = Unnamed
	case len(name) > maxNameBytes:
		name = Other
	}
	sh := c.shard(o.Deployment.Name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	pending := c.pendingFor(sh, o.Deployment.Name)
	if pending == nil {
		return
	}
	t := sh.tallyAt(pending, o.At)
	m, isNew := t.stats(operation{name, operationKind(o.Type)})
	m.add(o)
	if isNew {
		sh.operations++
		sh.limitOperations(t)
	}
}

// operationKind returns text if it is the type of an operation, otherwise "". The text is "" if the document could not
// be parsed.
func operationKind(text string) string {
	for _, known := range []string{"query", "mutation", "subscription"} {
		if text == known {
			return known
		}
	}
	return ""
}

func (c *Collector) shard(deployment string) *shard {
	return &c.shards[maphash.String(c.seed, deployment)%shardCount]
}

// pendingFor returns the counts of a deployment, or nil if the shard has no
// capacity for another deployment. The caller holds the shard's lock.
func (c *Collector) pendingFor(sh *shard, deployment string) *pendingCounts {
	pending := sh.deployments[deployment]
	if pending != nil {
		return pending
	}
	if len(sh.deployments) >= maxDeployments/shardCount {
		c.lost.Add(1)
		return nil
	}
	pending = &pendingCounts{}
	sh.deployments[strings.Clone(deployment)] = pending
	return pending
}

// tallyAt returns the tally of the interval that contains t. If the deployment then has more than maxMemoryIntervals
// intervals, tallyAt merges two of them, and may return the tally of an interval close to t. The caller holds the
// lock.
func (sh *shard) tallyAt(pending *pendingCounts, t time.Time) *tally {
	start := finest.start(t.Unix())
	for i := len(pending.intervals) - 1; i >= 0; i-- {
		if pending.intervals[i].start == start {
			return pending.intervals[i].tally
		}
	}
	pending.intervals = append(pending.intervals, intervalTally{start, newTally()})
	if len(pending.intervals) <= maxMemoryIntervals {
		return pending.intervals[len(pending.intervals)-1].tally
	}
	operations, callers := pending.size()
	merged := pending.mergeClosest(start)
	operationsAfter, callersAfter := pending.size()
	sh.operations += operationsAfter - operations
	sh.callers += callersAfter - callers
	return merged
}

// limitOperations folds operations into Other if a tally, or the whole shard, has too many. The operations with the
// highest counters stay, so it may also fold a new operation. If the shard is full, limitOperations trims the tallies
// with the most operations until half of the shard is free, so that the names of one deployment do not displace those
// of another. The caller holds the lock.
func (sh *shard) limitOperations(t *tally) {
	if len(t.operations) > memoryFactor*maxOperations {
		sh.operations -= t.trimOperations(maxOperations)
	}
	if sh.operations <= maxAllOperations/shardCount {
		return
	}
	for maxNames := maxOperations; sh.operations > maxAllOperations/shardCount/2; maxNames /= 2 {
		for t := range sh.tallies() {
			sh.operations -= t.trimOperations(maxNames)
		}
	}
}

// limitCallers folds callers like limitOperations folds operations.
func (sh *shard) limitCallers(t *tally) {
	if len(t.calls) > memoryFactor*maxCallers {
		sh.callers -= t.trimCallers(maxCallers)
	}
	if sh.callers <= maxAllCallers/shardCount {
		return
	}
	for maxNames := maxCallers; sh.callers > maxAllCallers/shardCount/2; maxNames /= 2 {
		for t := range sh.tallies() {
			sh.callers -= t.trimCallers(maxNames)
		}
	}
}

// tallies yields the tallies of all deployments and intervals in the shard.
func (sh *shard) tallies() iter.Seq[*tally] {
	return func(yield func(*tally) bool) {
		for _, pending := range sh.deployments {
			for _, s := range pending.intervals {
				if !yield(s.tally) {
					return
				}
			}
		}
	}
}

// size returns the numbers of operations and callers that are not folded into Other.
func (c *pendingCounts) size() (operations, callers int) {
	for _, s := range c.intervals {
		operations += len(s.operations)
		callers += len(s.calls)
	}
	return operations, callers
}

// mergeClosest merges the two intervals that are closest to each other: the one with fewer names into the other. It
// never merges the newest interval: current requests must count in the current interval, even if long requests end at
// the same time. mergeClosest returns the tally that counts the calls of the interval that begins at start, after the
// merge. If there is no such interval, it returns the merged tally.
func (c *pendingCounts) mergeClosest(start int64) *tally {
	slices.SortFunc(c.intervals, func(a, b intervalTally) int { return cmp.Compare(a.start, b.start) })
	gap := func(i int) int64 { return c.intervals[i+1].start - c.intervals[i].start }
	closest := 0
	for i := range len(c.intervals) - 2 {
		if gap(i) < gap(closest) {
			closest = i
		}
	}
	into, from := c.intervals[closest], c.intervals[closest+1]
	if len(into.operations)+len(into.calls) < len(from.operations)+len(from.calls) {
		into, from = from, into
	}
	into.merge(from.tally)
	c.intervals[closest] = into
	c.intervals = slices.Delete(c.intervals, closest+1, closest+2)
	for _, s := range c.intervals {
		if s.start == start {
			return s.tally
		}
	}
	return into.tally
}

// reset returns the counts of each deployment since the last call, and removes them from the collector.
func (c *Collector) reset() map[string]*pendingCounts {
	all := map[string]*pendingCounts{}
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		deployments := sh.deployments
		if len(deployments) == 0 { // keep the empty map
			sh.mu.Unlock()
			continue
		}
		sh.deployments, sh.operations, sh.callers = make(map[string]*pendingCounts, len(deployments)), 0, 0
		sh.mu.Unlock()
		for name, pending := range deployments {
			if len(pending.intervals) == 0 {
				continue
			}
			all[name] = pending
			c.recent.Add(-int64(len(pending.recent.calls)))
		}
	}
	return all
}
