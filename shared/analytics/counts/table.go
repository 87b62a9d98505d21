package counts

import (
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

const (
	// freshSpace has what gateways have counted and nobody has rolled up: a deployment's are a partition of a few rows (placeCount).
	// In the due index it has them all. Written by gateways, read and removed by rollups, read by every report.
	freshSpace store.Space = "analytics-new"
	// rowSpace has what was rolled up: a deployment's rows of one length are a partition, in the order of time. Reports read a run of it.
	rowSpace store.Space = "analytics"
	// callSpace has the newest calls of a deployment, a row an hour, in the order of time.
	callSpace store.Space = "analytics-calls"
	// headSpace has a number for each deployment that every rollup raises: no two at once, and a report tells by it that one came in between.
	headSpace store.Space = "analytics-head"
	// writerSpace has the number of the last write of each gateway, so that one whose answer was lost is not made twice.
	writerSpace store.Space = "analytics-writer"
)

func freshPartition(deployment string) string { return freshSpace.Partition(deployment) }

// placeCount is how many rows of a deployment wait for a rollup at most, however many gateways write and however late it is: with the 53 that
// the longest report reads of what is rolled up (last-30-days) and the number before and after it, they are 95.
const placeCount = 40

func placeKey(deployment string, place int) store.Key {
	return store.In(freshPartition(deployment), fmt.Sprintf("%02d", place))
}

// duePartition is where a rollup finds out what there is to do. One shard takes all of it: a thousand gateways write a hundred rows a second.
func duePartition() string { return freshSpace.Partition("", "due") }

func headKey(deployment string) store.Key { return headSpace.Key(deployment) }

func writerKey(id string) store.Key { return writerSpace.Key(id) }

// length is how long the interval is that a row is about.
type length struct {
	name     string
	duration time.Duration
	// keep is how long a row is needed after its interval has ended.
	keep time.Duration
}

const day = 24 * time.Hour

// The lengths that rows have. Each call counts in a row of each, so that a report reads few of them, and a rollup takes nothing together later.
// What is kept longest is what a window of three months reads, and a day more.
var (
	finest  = length{"5m", 5 * time.Minute, 2 * day}
	hourly  = length{"hour", time.Hour, 32 * day}
	daily   = length{"day", day, 94 * day}
	weekly  = length{"week", 7 * day, 94 * day}
	lengths = []length{finest, hourly, daily, weekly}
)

// callsKept is how long an hour's calls are needed after it has ended.
const callsKept = 25 * time.Hour

// monday is when weeks begin, in seconds since 1970: the first of January was a Thursday.
const monday = int64(4 * day / time.Second)

// start is when the interval began that a time lies in, both in seconds since 1970.
func (l length) start(at int64) int64 {
	offset := int64(0)
	if l.duration == weekly.duration {
		offset = monday
	}
	size := int64(l.duration / time.Second)
	since := (at - offset) % size
	if since < 0 {
		since += size
	}
	return at - since
}

func (l length) partition(deployment string) string { return rowSpace.Partition(deployment, l.name) }

func (l length) key(deployment string, start int64) store.Key {
	return store.In(l.partition(deployment), spell(start))
}

func callsPartition(deployment string) string { return callSpace.Partition(deployment) }

func callsKey(deployment string, start int64) store.Key {
	return store.In(callsPartition(deployment), spell(start))
}

// spell writes a time so that texts sort as times do.
func spell(at int64) string { return time.Unix(at, 0).UTC().Format("2006-01-02T15:04:05") }

// spelled reads it.
func spelled(text string) (int64, bool) {
	t, err := time.Parse("2006-01-02T15:04:05", text)
	return t.Unix(), err == nil
}

// row is what rows of all kinds are.
type row struct {
	store.Rest

	SK   string `dynamodbav:"sk"`
	Data []byte `dynamodbav:"data"`
	TTL  int64  `dynamodbav:"ttl,omitempty"`
}

// freshRow is a row that is not rolled up. It holds what one gateway has written, or several.
type freshRow struct {
	store.Rest

	row
	// Version is the write that made the row what it is: no two have the same, for one that was removed is soon made anew.
	Version string `dynamodbav:"version"`
	DuePK   string `dynamodbav:"duePk"`
	// DueSK is when the first of it was written.
	DueSK string `dynamodbav:"dueSk"`
}

// unchanged holds for a row as long as nobody has merged with it or removed it.
func (r *freshRow) unchanged() store.Condition { return store.Equal(store.At("version"), r.Version) }

// freshKept is how long such a row waits for a rollup, at most.
const freshKept = 94 * day

// head numbers a deployment's rollups. It has no ttl: one that is past it would still be there, where a condition asks for it.
type head struct {
	store.Rest

	Version int64 `dynamodbav:"version"`
}

// writer is what a gateway has written.
type writer struct {
	store.Rest

	Seq int64 `dynamodbav:"seq"`
	TTL int64 `dynamodbav:"ttl"`
}

// writerKept is far longer than a write is tried for (lateWrites).
const writerKept = 7 * day
