// Package counts counts calls and GraphQL operations (package analytics says what of them), keeps the numbers in the table, and reads them.
//
// A gateway has one [Collector]. Telling it of a request takes a lock for some nanoseconds and nothing else. What it has counted, it writes every
// few seconds: a row for each deployment. There are so many of a deployment at most, and where a gateway finds one it adds to it. A [Rollup] adds
// such rows up once a minute, into rows of five minutes, hours, days and weeks, in the transaction that removes them, so that each counts once
// whatever dies in between. A [Reader] adds up what covers a [Window], with what is not rolled up yet.
//
// It is no metering: nothing is charged or refused by what is counted here, and a gateway that crashes loses what it counted since its last write.
// It is no log either: of a request it keeps what [RecentCall] has, for 24 hours.
//
// Read this file first, then flush.go, places.go, rollup.go, read.go and report.go; tally.go has what a row holds, frequent.go which names of all that
// are asked for, encode.go how, table.go where it stands, and docs/decisions/0044-rows-of-counts-are-rolled-up.md why.
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

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store"
)

// Bounds of what a collector has in memory between two writes: some 150 MB at worst. Beyond them calls are not kept one by one, operations
// and callers count under Other, those first of which a deployment has the most, and calls of further deployments are lost.
const (
	maxDeployments   = 16_384
	maxAllOperations = 16_384
	maxAllCallers    = 262_144
	maxAllRecent     = 262_144
	// maxSlots bounds the intervals of a deployment: two, unless requests take minutes, nothing can be written, or a clock jumps.
	maxSlots = 4
)

// Options are what a Collector takes from outside. All are required.
type Options struct {
	Table *store.Table
	// Now is this instance's clock, which says when it is time to write.
	Now func() time.Time
	// Random makes the collector's id: crypto/rand.Reader outside tests.
	Random io.Reader
	// Log hears of what was lost.
	Log *slog.Logger
}

// Collector counts calls and operations. An instance has one. It may be used by many goroutines; neither Call nor Operation blocks or fails.
type Collector struct {
	table *store.Table
	now   func() time.Time
	log   *slog.Logger
	id    string

	seed   maphash.Seed
	shards [shardCount]shard
	// recent is how many calls all deployments have together one by one, lost the calls and operations that no room was for.
	recent, lost atomic.Int64

	pace pace
	// writing is held by the one that writes; what is below is its own.
	writing sync.Mutex
	seq     int64
	batches []batch
	round   int // of writing
	places  int // placeCount, outside tests
}

// shardCount keeps instances with many cores from meeting at one lock.
const shardCount = 16

type shard struct {
	mu          sync.Mutex
	deployments map[string]*fresh
	// operations and callers are how many all of its deployments have by name.
	operations, callers int
}

// New makes a Collector that has counted nothing.
func New(o Options) *Collector {
	const digits = 16 // no two ever have the same
	c := &Collector{
		table: o.Table, now: o.Now, log: o.Log, id: ids.NewSource(o.Random, o.Now).Digits(digits),
		seed: maphash.MakeSeed(), pace: pace{tokens: burst, at: o.Now()}, places: placeCount,
	}
	for i := range c.shards {
		c.shards[i].deployments = map[string]*fresh{}
	}
	return c
}

// Call counts one request.
func (c *Collector) Call(call analytics.Call) {
	sh := c.shard(call.Deployment.Name)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	f := c.fresh(sh, call.Deployment.Name)
	if f == nil {
		return
	}
	consumer := call.Consumer
	if len(consumer) > MaxConsumerBytes {
		consumer = Other
	}
	t := sh.at(f, call.At)
	if t.call(caller{consumer, call.Status}, number{count: 1}) {
		sh.callers++
		sh.boundCallers(t)
	}
	entry := RecentCall{Consumer: consumer, Method: methodOf(call.Method), Route: call.Route, Status: call.Status, Policy: call.Policy, At: call.At}
	if f.recent.add(entry, c.recent.Load() < maxAllRecent) {
		c.recent.Add(1)
	}
	c.pace.calls.Add(1)
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
	f := c.fresh(sh, o.Deployment.Name)
	if f == nil {
		return
	}
	t := sh.at(f, o.At)
	m, isNew := t.at(operation{name, kindOf(o.Type)})
	m.add(o)
	if isNew {
		sh.operations++
		sh.boundOperations(t)
	}
}

// kindOf is the type of an operation, "" for one that could not be read.
func kindOf(text string) string {
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

// fresh is where a deployment is counted, nil where there is no room for another one. The shard's lock is held.
func (c *Collector) fresh(sh *shard, deployment string) *fresh {
	f := sh.deployments[deployment]
	if f != nil {
		return f
	}
	if len(sh.deployments) >= maxDeployments/shardCount {
		c.lost.Add(1)
		return nil
	}
	f = &fresh{}
	sh.deployments[strings.Clone(deployment)] = f
	return f
}

// at is the tally of the interval that a time lies in, or of one close to it. The lock is held.
func (sh *shard) at(f *fresh, t time.Time) *tally {
	start := finest.start(t.Unix())
	for i := len(f.slots) - 1; i >= 0; i-- {
		if f.slots[i].start == start {
			return f.slots[i].tally
		}
	}
	f.slots = append(f.slots, slot{start, newTally()})
	if len(f.slots) <= maxSlots {
		return f.slots[len(f.slots)-1].tally
	}
	operations, callers := f.size()
	into := f.fold(start)
	fewerOperations, fewerCallers := f.size()
	sh.operations += fewerOperations - operations
	sh.callers += fewerCallers - callers
	return into
}

// boundOperations makes room where a tally, or all of the shard, has more operations than it may. The new one has its chance as all others have. In
// a shard that is full, the tallies with the most give way until half is free: no deployment's names cost another its own. The lock is held.
func (sh *shard) boundOperations(t *tally) {
	if len(t.operations) > spare*maxOperations {
		sh.operations -= t.trimOperations(maxOperations)
	}
	if sh.operations <= maxAllOperations/shardCount {
		return
	}
	for most := maxOperations; sh.operations > maxAllOperations/shardCount/2; most /= 2 {
		for t := range sh.tallies() {
			sh.operations -= t.trimOperations(most)
		}
	}
}

// boundCallers does the same for callers.
func (sh *shard) boundCallers(t *tally) {
	if len(t.calls) > spare*maxCalls {
		sh.callers -= t.trimCallers(maxCalls)
	}
	if sh.callers <= maxAllCallers/shardCount {
		return
	}
	for most := maxCalls; sh.callers > maxAllCallers/shardCount/2; most /= 2 {
		for t := range sh.tallies() {
			sh.callers -= t.trimCallers(most)
		}
	}
}

func (sh *shard) tallies() iter.Seq[*tally] {
	return func(yield func(*tally) bool) {
		for _, f := range sh.deployments {
			for _, s := range f.slots {
				if !yield(s.tally) {
					return
				}
			}
		}
	}
}

// size is how many operations and callers there are by name.
func (f *fresh) size() (operations, callers int) {
	for _, s := range f.slots {
		operations += len(s.operations)
		callers += len(s.calls)
	}
	return operations, callers
}

// fold counts two intervals as one: those that are the closest, but never the newest, for what comes now has to count as of now, whatever long
// requests end beside it. The one with less counts as of the other. It gives the tally where the interval of start counts from now on.
func (f *fresh) fold(start int64) *tally {
	slices.SortFunc(f.slots, func(a, b slot) int { return cmp.Compare(a.start, b.start) })
	gap := func(i int) int64 { return f.slots[i+1].start - f.slots[i].start }
	at := 0
	for i := range len(f.slots) - 2 {
		if gap(i) < gap(at) {
			at = i
		}
	}
	into, from := f.slots[at], f.slots[at+1]
	if len(into.operations)+len(into.calls) < len(from.operations)+len(from.calls) {
		into, from = from, into
	}
	into.merge(from.tally)
	f.slots[at] = into
	f.slots = slices.Delete(f.slots, at+1, at+2)
	for _, s := range f.slots {
		if s.start == start {
			return s.tally
		}
	}
	return into.tally
}

// take gives what was counted, by deployment, and begins anew.
func (c *Collector) take() map[string]*fresh {
	all := map[string]*fresh{}
	for i := range c.shards {
		sh := &c.shards[i]
		sh.mu.Lock()
		taken := sh.deployments
		if len(taken) == 0 { // it stays where it is, for others to count in
			sh.mu.Unlock()
			continue
		}
		sh.deployments, sh.operations, sh.callers = make(map[string]*fresh, len(taken)), 0, 0
		sh.mu.Unlock()
		for name, f := range taken {
			if len(f.slots) == 0 {
				continue
			}
			all[name] = f
			c.recent.Add(-int64(len(f.recent.calls)))
		}
	}
	return all
}
