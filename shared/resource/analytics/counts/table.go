package counts

import (
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

const (
	// pendingPrefix is the key prefix of pending rows. They contain the counts that gateways have written and that no
	// rollup has processed yet. The pending rows of a deployment are in one partition, which has at most bucketCount
	// rows. The due index has the pending rows of all deployments. Gateways write them, rollups read and delete them,
	// and every report reads them.
	pendingPrefix store.KeyPrefix = "analytics-new"
	// rowPrefix is the key prefix of the rolled-up counts. All rows of a deployment with the same resolution are in
	// one partition, sorted by time. Reports read consecutive rows of a partition.
	rowPrefix store.KeyPrefix = "analytics"
	// callPrefix is the key prefix of the newest calls of a deployment. Each hour has one row, and the rows are sorted by time.
	callPrefix store.KeyPrefix = "analytics-calls"
	// rollupStatePrefix is the key prefix of a number for each deployment. Every rollup increments the number. If two
	// rollups run at the same time, only one can commit. A report compares the number before and after reading, to
	// detect a rollup in between.
	rollupStatePrefix store.KeyPrefix = "analytics-head"
	// writerPrefix is the key prefix of the number of the last write of each gateway, so that a write with an unknown
	// result is not counted twice.
	writerPrefix store.KeyPrefix = "analytics-writer"
)

func pendingPartition(deployment string) string { return pendingPrefix.Partition(deployment) }

// bucketCount is the maximum number of pending rows of a deployment, even with many gateways and a late rollup. The
// longest report (last-30-days) reads these rows, 53 rolled-up rows, and the number of rollups twice: 95 items in
// all.
const bucketCount = 40

func bucketKey(deployment string, bucket int) store.Key {
	return store.KeyIn(pendingPartition(deployment), fmt.Sprintf("%02d", bucket))
}

// duePartition returns the partition of the due index that lists the pending rows for a
// rollup. One shard is enough: a thousand gateways write a hundred rows a second.
func duePartition() string { return pendingPrefix.Partition("", "due") }

func rollupStateKey(deployment string) store.Key { return rollupStatePrefix.Key(deployment) }

func writerKey(id string) store.Key { return writerPrefix.Key(id) }

// resolution is the duration of the interval that a row counts, and how long such rows are kept.
type resolution struct {
	name     string
	duration time.Duration
	// retention is how long a row is needed after the end of its interval.
	retention time.Duration
}

const day = 24 * time.Hour

// The resolutions. Each call counts in one row of each resolution, so that a report reads few rows, and rows never
// need to be merged later. The longest retention is a window of three months, plus a day or more.
var (
	finest      = resolution{"5m", 5 * time.Minute, 2 * day}
	hourly      = resolution{"hour", time.Hour, 32 * day}
	daily       = resolution{"day", day, 94 * day}
	weekly      = resolution{"week", 7 * day, 94 * day}
	resolutions = []resolution{finest, hourly, daily, weekly}
)

// callsRetention is how long the row with the calls of an hour is needed after the end of the hour.
const callsRetention = 25 * time.Hour

// monday is the beginning of a week, in seconds since 1970: January 1 was a Thursday.
const monday = int64(4 * day / time.Second)

// start returns the beginning of the interval that contains a time, both in seconds since 1970.
func (r resolution) start(at int64) int64 {
	offset := int64(0)
	if r.duration == weekly.duration {
		offset = monday
	}
	size := int64(r.duration / time.Second)
	elapsed := (at - offset) % size
	if elapsed < 0 {
		elapsed += size
	}
	return at - elapsed
}

func (r resolution) partition(deployment string) string {
	return rowPrefix.Partition(deployment, r.name)
}

func (r resolution) key(deployment string, start int64) store.Key {
	return store.KeyIn(r.partition(deployment), formatTime(start))
}

func callsPartition(deployment string) string { return callPrefix.Partition(deployment) }

func callsKey(deployment string, start int64) store.Key {
	return store.KeyIn(callsPartition(deployment), formatTime(start))
}

// formatTime formats a time so that the results sort like the times.
func formatTime(at int64) string { return time.Unix(at, 0).UTC().Format("2006-01-02T15:04:05") }

// parseTime parses the result of formatTime.
func parseTime(text string) (int64, bool) {
	t, err := time.Parse("2006-01-02T15:04:05", text)
	return t.Unix(), err == nil
}

// row contains the attributes that rolled-up rows, call rows and pending rows have in common.
type row struct {
	store.UnknownAttributes

	SK   string `dynamodbav:"sk"`
	Data []byte `dynamodbav:"data"`
	TTL  int64  `dynamodbav:"ttl,omitempty"`
}

// pendingRow is a row that is not rolled up yet. It contains the counts of one gateway or of several.
type pendingRow struct {
	store.UnknownAttributes

	row
	// Version is the id of the write that created this state of the row. No two states have the same version, even if a
	// row was deleted and created again between them.
	Version string `dynamodbav:"version"`
	DuePK   string `dynamodbav:"duePk"`
	// DueSK is the time of the first write of the row.
	DueSK string `dynamodbav:"dueSk"`
}

// versionUnchanged returns the condition that no process has merged counts into the row or removed it.
func (r *pendingRow) versionUnchanged() store.Condition {
	return store.Equal(store.At("version"), r.Version)
}

// pendingRetention is how long a pendingRow can wait for a rollup. After that, it expires and its counts are lost.
const pendingRetention = 94 * day

// rollupState contains the number of a deployment's rollups. It must not expire: reads ignore an expired row, but
// conditions still see the row until the database deletes it.
type rollupState struct {
	store.UnknownAttributes

	Version int64 `dynamodbav:"version"`
}

// writerState contains the number of a gateway's last write.
type writerState struct {
	store.UnknownAttributes

	Seq int64 `dynamodbav:"seq"`
	TTL int64 `dynamodbav:"ttl"`
}

// writerRetention is far longer than the time for which a write is retried (retryWindow).
const writerRetention = 7 * day
