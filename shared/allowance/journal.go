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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
)

// journal is one item in which an instance writes down what it has leased of
// quotas and not begun to spend: all that somebody else may take back once the
// instance is held to be dead. What it has begun is in no journal any more: it
// counts as spent until the instance itself gives it back.
//
// Only its instance writes entries while it lives, one transaction after the
// other, each under the number of the one before. So none is applied twice, and a
// transaction whose answer was lost can be looked up. Who takes it back marks
// it dead first, under the same number: nothing of the instance's comes after that.
type journal struct {
	id      string
	table   *store.Table
	now     func() time.Time
	timeout time.Duration
	// gone is set when nothing of the journal is the instance's any more: somebody
	// has taken it back, or will, since nobody knows what became of the last write.
	gone atomic.Bool

	mu    sync.Mutex
	busy  bool // a goroutine writes
	queue []*order
	// Below is what the item has, nothing at first.
	seq     int64
	entries map[period]int64
	due     time.Time
}

// order is a change of one allowance and of the journal's entry of it, in one
// transaction: a lease adds n to both, less what is begun at once; a begin lowers the
// entry alone; a return lowers the record, and the entry by what was not begun.
type order struct {
	period  period
	limit   int64 // of a lease
	granted int64 // added to the record
	unbegun int64 // added to the entry
	done    chan error
}

// journalRecord is the item.
type journalRecord struct {
	store.Rest

	// Seq is the number of the last write of the journal's instance.
	Seq     int64   `dynamodbav:"seq"`
	Entries []entry `dynamodbav:"entries,omitempty"`
	// Dead is set by who takes the entries back.
	Dead bool `dynamodbav:"dead,omitempty"`
	// Reclaimed counts the writes of those who do so, from 1.
	Reclaimed int64 `dynamodbav:"reclaimed,omitempty"`
	// The keys of the due index, while there are entries.
	DuePK string `dynamodbav:"duePk,omitempty"`
	DueSK string `dynamodbav:"dueSk,omitempty"`
	// TTL is when the item may go, while there are none.
	TTL int64 `dynamodbav:"ttl,omitempty"`
}

// entry is what is leased of an allowance and not begun.
type entry struct {
	store.Rest

	Name  string `dynamodbav:"name"`
	From  int64  `dynamodbav:"from"` // milliseconds since 1970
	To    int64  `dynamodbav:"to"`
	Units int64  `dynamodbav:"units"`
}

func (e entry) period() period { return period{name: e.Name, from: e.From, to: e.To} }

var (
	// errGone says that a journal takes nothing more, and nothing was done.
	errGone = errors.New("allowance: the journal was closed by another")
	// errMoved says that the journal is not as its instance knows it.
	errMoved = errors.New("allowance: the journal has changed")
	// errUndecided says that nobody can tell whether an order was carried out.
	errUndecided = errors.New("allowance: it is not known what was leased")
)

const (
	// deadAfter is how long after its last write a journal is held to be dead, at
	// least; at most dueStep longer. It decides when units come back, never
	// whether they are spent twice.
	deadAfter = time.Minute
	dueStep   = 30 * time.Second
	// tombstone is how long a journal without entries is kept, for an instance that
	// was frozen to read how its last write went.
	tombstone = 7 * 24 * time.Hour
	// ordersPerCommit bounds the records of a transaction: more of them meet more
	// of the other instances' transactions.
	ordersPerCommit = 20
	// commitAttempts is how often a write is made again after a look at the journal.
	commitAttempts = 3
)

// refusal says which order's record does not allow it.
type refusal struct{ of *order }

// Error implements error.
func (*refusal) Error() string { return "allowance: a record refuses its part" }

// add has an order carried out, with others in one transaction where it can. The
// answer comes by its channel.
func (j *journal) add(ctx context.Context, o *order) {
	o.done = make(chan error, 1)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.gone.Load() {
		o.done <- errGone
		return
	}
	j.queue = append(j.queue, o)
	if !j.busy {
		j.busy = true
		go j.work(context.WithoutCancel(ctx))
	}
}

// wait gives the answer to an order, or takes it back when ctx ends before it was
// begun.
func (j *journal) wait(ctx context.Context, o *order) error {
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	j.mu.Lock()
	if i := slices.Index(j.queue, o); i >= 0 {
		j.queue = slices.Delete(j.queue, i, i+1)
		j.mu.Unlock()
		return fault.New(fault.Throttled, "The service is busy, and nothing was done. Repeat the request in a few seconds.").Because(context.Cause(ctx))
	}
	j.mu.Unlock()
	return <-o.done
}

// work carries out orders until there are none: those that came meanwhile share
// the next transaction.
func (j *journal) work(ctx context.Context) {
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

// next takes orders off the queue for one transaction, which writes to each record
// once. The lock is held.
func (j *journal) next() (batch []*order) {
	records := map[period]bool{}
	j.queue = slices.DeleteFunc(j.queue, func(o *order) bool {
		if o.granted != 0 {
			if records[o.period] || len(records) == ordersPerCommit {
				return false
			}
			records[o.period] = true
		}
		batch = append(batch, o)
		return true
	})
	return batch
}

// commit makes one transaction of orders, or knows why there is none.
func (j *journal) commit(ctx context.Context, batch []*order) {
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	doubt := false
	for made := 1; len(batch) > 0; made++ {
		record := j.record(batch)
		err := j.table.Commit(ctx, j.writes(record, batch)...)
		if err == nil {
			j.applied(record, batch)
			return
		}
		if r, ok := errors.AsType[*refusal](err); ok && !doubt {
			batch = j.refused(r.of, batch)
			made--
			continue
		}
		doubt = doubt || !refusedByAll(err)
		then, readErr := j.read(ctx)
		switch {
		case readErr != nil && !doubt:
			answer(batch, err)
			return
		case readErr != nil:
			j.close(batch, errors.Join(errUndecided, err, readErr))
			return
		case then.Seq == record.Seq && then.Dead:
			j.applied(record, batch)
			j.close(nil, nil)
			return
		case then.Seq == record.Seq:
			j.applied(record, batch)
			return
		case doubt && then.Seq == 0 && j.seq > 0: // not even what it was is left
			j.close(batch, errUndecided)
			return
		case then.Dead || then.Seq != j.seq:
			j.close(batch, errGone)
			return
		case made == commitAttempts && !doubt:
			answer(batch, err)
			return
		case made == commitAttempts:
			j.close(batch, errors.Join(errUndecided, err))
			return
		}
	}
}

// refusedByAll reports whether a commit had no effect, and can have none later. Where
// the journal is not as it was, this very commit may be why.
func refusedByAll(err error) bool {
	if _, ok := errors.AsType[*refusal](err); ok {
		return true
	}
	f, ok := errors.AsType[*fault.Fault](err)
	return ok && f.Kind == fault.Throttled
}

// refused takes what a record does not allow out of a batch that was not made.
func (j *journal) refused(o *order, batch []*order) []*order {
	if o.granted < 0 {
		// The record is gone, and what was leased of it with it.
		o.granted = 0
		return batch
	}
	o.done <- errSpent
	return slices.DeleteFunc(batch, func(other *order) bool { return other == o })
}

func answer(batch []*order, err error) {
	for _, o := range batch {
		o.done <- err
	}
}

// close ends the journal for its instance.
func (j *journal) close(batch []*order, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.gone.Store(true)
	answer(batch, err)
	answer(j.queue, errGone)
	j.queue = nil
}

func (j *journal) applied(record journalRecord, batch []*order) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seq, j.due = record.Seq, j.dueOn()
	j.entries = map[period]int64{}
	for _, e := range record.Entries {
		j.entries[e.period()] = e.Units
	}
	answer(batch, nil)
}

// record is the item after a batch.
func (j *journal) record(batch []*order) journalRecord {
	j.mu.Lock()
	entries := maps.Clone(j.entries)
	j.mu.Unlock()
	if entries == nil {
		entries = map[period]int64{}
	}
	for _, o := range batch {
		entries[o.period] += o.unbegun
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
		r.TTL = j.now().Add(tombstone).Unix()
		return r
	}
	r.DuePK = duePartition()
	r.DueSK = j.dueOn().Format(dueFormat) + "#" + j.id
	return r
}

// dueOn is from when the journal is held to be dead, if it is written to now: in
// steps, so that few writes change the index.
func (j *journal) dueOn() time.Time {
	return j.now().UTC().Add(deadAfter + dueStep).Truncate(dueStep)
}

// dueFormat sorts as the times do.
const dueFormat = "2006-01-02T15:04:05Z"

// writes are a transaction of the journal with its records. The journal comes first: what
// it refuses outranks what a record does.
func (j *journal) writes(record journalRecord, batch []*order) []store.Write {
	key := journalKey(j.id)
	item := store.Create(key, record).Else(errMoved)
	if j.seq > 0 {
		item = store.Put(key, record).
			If(store.And(store.Equal(store.At("seq"), j.seq), store.Lacks(store.At("dead")))).Else(errMoved)
	}
	writes := []store.Write{item}
	for _, o := range batch {
		if o.granted != 0 {
			writes = append(writes, o.write())
		}
	}
	return writes
}

// write is the order's part of the record.
func (o *order) write() store.Write {
	w := count(o.period, o.granted).Else(&refusal{o})
	granted := store.At("granted")
	if o.granted < 0 {
		return w.If(store.AtLeast(granted, -o.granted))
	}
	return w.If(store.Or(store.Lacks(granted), store.AtMost(granted, o.limit-o.granted)))
}

// count adds n to a quota's record.
func count(p period, n int64) store.Write {
	return store.Upsert(p.key(),
		store.Add(store.At("granted"), n), store.Set(store.At(store.TTLAttribute), p.end().Add(quotaRetention).Unix()))
}

// quotaRetention is how long a quota's record outlives its period: until it is
// written to history, also after a failure of weeks.
const quotaRetention = 40 * 24 * time.Hour

// read reads the item; one that is not there has no number.
func (j *journal) read(ctx context.Context) (r journalRecord, err error) {
	if err = j.table.Get(ctx, journalKey(j.id), &r); err != nil && !errors.Is(err, store.ErrNotFound) {
		return r, fmt.Errorf("read a journal: %w", err)
	}
	return r, nil
}
