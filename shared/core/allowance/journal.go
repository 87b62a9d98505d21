package allowance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
)

// journal writes an item that has the quota units that an instance has leased but not activated.
// Another process can return these units when the instance is presumed dead. Activated
// units are not in the journal: they count as spent until the instance itself returns them.
//
// While the instance lives, only the instance writes entries. It writes one transaction at a time, and each
// requires the number of the previous transaction (seq). So no transaction is applied twice, and the journal
// shows whether a transaction whose reply was lost was applied. A process that returns the units first marks
// the journal as dead, with the same condition. After that, the instance cannot write to the journal.
type journal struct {
	id      string
	table   *store.Table
	now     func() time.Time
	timeout time.Duration
	// closed means that the instance must not use the journal any more: another process has returned the journal's
	// units, or the outcome of the instance's last write is unknown and another process will return the units.
	closed atomic.Bool

	mu    sync.Mutex
	busy  bool // a goroutine is writing
	queue []*journalChange
	// The fields below have the content of the item. The item is created by the first write.
	seq     int64
	entries map[period]int64
	due     time.Time
}

// journalChange is a change of one allowance and of its entry in the journal, in one transaction. A lease adds its
// units to the record. It adds to the entry only the units that are not activated immediately. An activation only
// lowers the entry. A return lowers the record, and it lowers the entry by the units that were not activated.
type journalChange struct {
	period   period
	limit    int64      // the allowance's limit, for a lease
	granted  int64      // added to the record's granted
	reserved int64      // added to the entry's units
	done     chan error // receives the result
}

// journalRecord is the item of a journal.
type journalRecord struct {
	store.UnknownAttributes

	// Seq is the number of the last write of the journal's instance.
	Seq     int64   `dynamodbav:"seq"`
	Entries []entry `dynamodbav:"entries,omitempty"`
	// Dead is set by the process that returns the entries.
	Dead bool `dynamodbav:"dead,omitempty"`
	// Reclaimed counts the writes of the process that returns the entries, from 1.
	Reclaimed int64 `dynamodbav:"reclaimed,omitempty"`
	// DuePK and DueSK are the keys in the due index. They are set while there are entries.
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
	// TTL is when the item can be deleted. It is set while there are no entries.
	TTL int64 `dynamodbav:"ttl,omitempty"`
}

// entry is the number of units of an allowance that are leased but not activated.
type entry struct {
	store.UnknownAttributes

	Name  string `dynamodbav:"name"`
	From  int64  `dynamodbav:"from"` // milliseconds since 1970
	To    int64  `dynamodbav:"to"`
	Units int64  `dynamodbav:"units"`
}

func (e entry) period() period { return period{name: e.Name, from: e.From, to: e.To} }

var (
	// errJournalClosed means that the journal is closed, and that the change was not made.
	errJournalClosed = errors.New("allowance: the journal was closed by another")
	// errJournalChanged means that the journal has changed since this process last read or wrote it.
	errJournalChanged = errors.New("allowance: the journal has changed")
	// errOutcomeUnknown means that a change may or may not have been made.
	errOutcomeUnknown = errors.New("allowance: it is not known what was leased")
)

const (
	// deadAfter is how long a journal must be without writes until it is presumed dead. It can take up to dueStep
	// longer. If a journal is presumed dead too early, its units are returned early, but they can still not be spent
	// twice.
	deadAfter = time.Minute
	dueStep   = 30 * time.Second
	// tombstoneRetention is how long a journal without entries is kept, so that an instance
	// that was frozen can read the outcome of its last write.
	tombstoneRetention = 7 * 24 * time.Hour
	// maxRecordsPerCommit limits the records of a transaction: larger transactions conflict more often with those of other instances.
	maxRecordsPerCommit = 20
	// maxCommitAttempts is the maximum number of attempts at a write. The journal is read between attempts. An attempt
	// that a record refuses does not count.
	maxCommitAttempts = 3
)

// refusal is the error of a commit if a record does not allow its change.
type refusal struct{ change *journalChange }

// Error implements error.
func (*refusal) Error() string { return "allowance: a record refuses its part" }

// add queues a change. The journal makes queued changes in one transaction
// if possible, and sends each result to the channel of its change.
func (j *journal) add(ctx context.Context, o *journalChange) {
	o.done = make(chan error, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed.Load() {
		o.done <- errJournalClosed
		return
	}
	j.queue = append(j.queue, o)
	if !j.busy {
		j.busy = true
		go j.run(context.WithoutCancel(ctx))
	}
}

// wait waits for the result of a change. If ctx ends while the change is still queued, wait withdraws the change.
func (j *journal) wait(ctx context.Context, o *journalChange) error {
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	j.mu.Lock()
	if i := slices.Index(j.queue, o); i >= 0 {
		j.queue = slices.Delete(j.queue, i, i+1)
		j.mu.Unlock()
		return fault.New(fault.Throttled,
			"The service is busy, and nothing was done. Repeat the request in a few seconds.").WithCause(context.Cause(ctx))
	}
	j.mu.Unlock()
	return <-o.done
}

// run commits queued changes until there are none. Changes that are queued during a commit share the next transaction.
func (j *journal) run(ctx context.Context) {
	for {
		j.mu.Lock()
		batch := j.next()
		if len(batch) == 0 {
			j.busy = false
			j.mu.Unlock()
			return
		}
		j.mu.Unlock()
		j.commit(ctx, batch)
	}
}

// next removes the changes of one transaction from the queue and returns them. A
// transaction can write to each record only once. The caller must hold the lock.
func (j *journal) next() (batch []*journalChange) {
	records := map[period]bool{}
	j.queue = slices.DeleteFunc(j.queue, func(o *journalChange) bool {
		if o.granted != 0 {
			if records[o.period] || len(records) == maxRecordsPerCommit {
				return false
			}
			records[o.period] = true
		}
		batch = append(batch, o)
		return true
	})
	return batch
}

// commit makes the changes in one transaction, and sends their results. If the
// transaction fails, it reads the journal to find out whether the changes were made.
func (j *journal) commit(ctx context.Context, batch []*journalChange) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	uncertain := false
	for attempt := 1; len(batch) > 0; attempt++ {
		item := j.itemAfter(batch)
		err := j.table.Commit(ctx, j.writes(item, batch)...)
		if err == nil {
			j.finishCommit(item, batch)
			return
		}
		if r, ok := errors.AsType[*refusal](err); ok && !uncertain {
			batch = j.removeRefused(r.change, batch)
			attempt--
			continue
		}
		uncertain = uncertain || !hadNoEffect(err)
		stored, readErr := j.read(ctx)
		switch {
		case readErr != nil && !uncertain:
			complete(batch, err)
			return
		case readErr != nil:
			j.close(batch, errors.Join(errOutcomeUnknown, err, readErr))
			return
		case stored.Seq == item.Seq && stored.Dead:
			j.finishCommit(item, batch)
			j.close(nil, nil)
			return
		case stored.Seq == item.Seq:
			j.finishCommit(item, batch)
			return
		case uncertain && stored.Seq == 0 && j.seq > 0: // even the previous state is missing
			j.close(batch, errOutcomeUnknown)
			return
		case stored.Dead || stored.Seq != j.seq:
			j.close(batch, errJournalClosed)
			return
		case attempt == maxCommitAttempts && !uncertain:
			complete(batch, err)
			return
		case attempt == maxCommitAttempts:
			j.close(batch, errors.Join(errOutcomeUnknown, err))
			return
		}
	}
}

// hadNoEffect reports whether a failed commit certainly had no effect and can have none
// later. errJournalChanged is no such error: the commit itself may have changed the journal.
func hadNoEffect(err error) bool {
	if _, ok := errors.AsType[*refusal](err); ok {
		return true
	}
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && f.Kind == fault.Throttled
}

// removeRefused returns the batch to commit after a record refused the change o. It removes a lease from the batch and
// sends errExceedsLimit as its result. A return stays in the batch, but changes only the journal. Nothing was committed
// yet.
func (j *journal) removeRefused(o *journalChange, batch []*journalChange) []*journalChange {
	if o.granted < 0 {
		// The record no longer exists, and neither do the units leased from it.
		o.granted = 0
		return batch
	}
	o.done <- errExceedsLimit
	return slices.DeleteFunc(batch, func(other *journalChange) bool { return other == o })
}

func complete(batch []*journalChange, err error) {
	for _, o := range batch {
		o.done <- err
	}
}

// close closes the journal for its instance. It sends err as the result
// of the batch, and errJournalClosed as the result of queued changes.
func (j *journal) close(batch []*journalChange, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed.Store(true)
	complete(batch, err)
	complete(j.queue, errJournalClosed)
	j.queue = nil
}

// finishCommit stores the content of the item that a transaction has written, and sends the results of its changes.
func (j *journal) finishCommit(item journalRecord, batch []*journalChange) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq, j.due = item.Seq, j.dueOn()
	j.entries = map[period]int64{}
	for _, e := range item.Entries {
		j.entries[e.period()] = e.Units
	}
	complete(batch, nil)
}

// itemAfter returns the journal's item as it is after a batch.
func (j *journal) itemAfter(batch []*journalChange) journalRecord {
	j.mu.Lock()
	entries := maps.Clone(j.entries)
	j.mu.Unlock()
	if entries == nil {
		entries = map[period]int64{}
	}
	for _, o := range batch {
		entries[o.period] += o.reserved
	}
	r := journalRecord{Seq: j.seq + 1}
	for p, units := range entries {
		if units > 0 {
			r.Entries = append(r.Entries, entry{Name: p.name, From: p.from, To: p.to, Units: units})
		}
	}
	slices.SortFunc(r.Entries, func(a, b entry) int {
		return strings.Compare(a.period().String()+a.Name, b.period().String()+b.Name)
	})
	if len(r.Entries) == 0 {
		r.TTL = j.now().Add(tombstoneRetention).Unix()
		return r
	}
	r.DuePK = duePartition()
	r.DueSK = j.dueOn().Format(dueFormat) + "#" + j.id
	return r
}

// dueOn returns the time from which a journal that is written now is presumed
// dead. The time is rounded up to dueStep, so that few writes change the index.
func (j *journal) dueOn() time.Time {
	return j.now().UTC().Add(deadAfter + dueStep).Truncate(dueStep)
}

// dueFormat is a time format whose texts sort by time.
const dueFormat = "2006-01-02T15:04:05Z"

// writes returns the writes of one transaction: the journal's item and the records of a batch. The journal comes first,
// so that the commit returns the journal's refusal even if a record refuses its change too.
func (j *journal) writes(item journalRecord, batch []*journalChange) []store.Write {
	key := journalKey(j.id)
	itemWrite := store.Create(key, item).Else(errJournalChanged)
	if j.seq > 0 {
		itemWrite = store.Put(key, item).
			If(store.And(store.Equal(store.At("seq"), j.seq), store.Lacks(store.At("dead")))).Else(errJournalChanged)
	}
	writes := []store.Write{itemWrite}
	for _, o := range batch {
		if o.granted != 0 {
			writes = append(writes, o.write())
		}
	}
	return writes
}

// write returns the change's write to the record.
func (c *journalChange) write() store.Write {
	w := addToQuota(c.period, c.granted).Else(&refusal{c})
	granted := store.At("granted")
	if c.granted < 0 {
		return w.If(store.AtLeast(granted, -c.granted))
	}
	return w.If(store.Or(store.Lacks(granted), store.AtMost(granted, c.limit-c.granted)))
}

// addToQuota returns the write that adds n to a quota's record.
func addToQuota(p period, n int64) store.Write {
	return store.Upsert(p.key(),
		store.Add(store.At("granted"), n), store.Set(store.At(store.TTLAttribute), p.end().Add(quotaRetention).Unix()))
}

// quotaRetention is how long a quota's record is kept after its period ends. It leaves time to copy the record to the
// history, even after an outage of several weeks.
const quotaRetention = 40 * 24 * time.Hour

// read reads the journal's item. If the item does not exist, the result has Seq 0.
func (j *journal) read(ctx context.Context) (r journalRecord, err error) {
	if err = j.table.Get(ctx, journalKey(j.id), &r); err != nil && !errors.Is(err, store.ErrNotFound) {
		return r, fmt.Errorf("read a journal: %w", err)
	}
	return r, nil
}
