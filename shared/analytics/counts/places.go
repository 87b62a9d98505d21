package counts

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// placeTries bounds how often a batch is tried whose rows others change: what is left is tried again when it is time to write the next time.
const placeTries = 8

// maxIntervals bounds the intervals of a row that several have written: those of an hour without a rollup, and of a rollup's transaction. Of more,
// two that are close count as one.
const maxIntervals = 14

// errTaken is what a batch answers whose rows are others than when they were read. Nothing of it is written.
var errTaken = errors.New("counts: others have written to the same rows at the same time")

// commit makes a batch's transaction.
func (c *Collector) commit(ctx context.Context, b *batch) error {
	for try := 1; ; try++ {
		err := c.try(ctx, b, try == placeTries)
		if !errors.Is(err, errTaken) || try == placeTries {
			return err
		}
	}
}

// try puts each row of a batch into a place of its deployment, with what is there, on condition that this is still all. It is another place each
// time, and never twice: the number of the write is in the same transaction.
//
// A place that cannot be read (a later release may have written it) is left as it is, and the next one is tried; what finds no other with the last
// try is given up, so that other deployments do not wait for it.
func (c *Collector) try(ctx context.Context, b *batch, last bool) error {
	stored, wanted := make([]freshRow, len(b.rows)), make([]*store.Wanted, len(b.rows))
	keys := make([]store.Key, len(b.rows))
	for i, r := range b.rows {
		keys[i] = placeKey(r.deployment, c.place(b, r.deployment))
		wanted[i] = store.Want(keys[i], &stored[i])
	}
	b.tries++
	if err := c.table.Load(ctx, wanted...); err != nil {
		return err
	}
	now := c.now()
	writes := []store.Write{store.Put(writerKey(c.id), writer{Seq: b.seq, TTL: now.Add(writerKept).Unix()}).
		If(store.Or(store.Absent(), store.Less(store.At("seq"), b.seq))).Else(errMade)}
	var unread []string
	for i, r := range b.rows {
		next := freshRow{
			row:     row{Data: r.data, TTL: now.Add(freshKept).Unix()},
			Version: fmt.Sprintf("%s.%d", c.id, b.seq), DuePK: duePartition(), DueSK: spell(now.Unix()),
		}
		before := store.Absent()
		if wanted[i].Found {
			var err error
			if next.Data, err = mergedData(stored[i].Data, r.data); err != nil {
				c.log.WarnContext(ctx, "what waits of a deployment's counts cannot be read", "deployment", r.deployment, "error", err)
				unread = append(unread, r.deployment)
				continue
			}
			next.Rest, next.DueSK, before = stored[i].Rest, stored[i].DueSK, stored[i].unchanged()
		}
		writes = append(writes, store.Put(keys[i], next).If(before).Else(errTaken))
	}
	if len(unread) > 0 && !last {
		return errTaken
	}
	b.rows = slices.DeleteFunc(b.rows, func(r counted) bool {
		lost := slices.Contains(unread, r.deployment)
		if lost {
			c.log.WarnContext(ctx, "requests were not counted: what waits of their deployment cannot be read", "deployment", r.deployment, "requests", r.calls)
		}
		return lost
	})
	return c.table.Commit(ctx, writes...)
}

// place is where a batch's row is tried: with each write and each try in another one. A gateway meets its own rows no more often than others'.
func (c *Collector) place(b *batch, deployment string) int {
	const apart = 13 // of tries: no divisor of placeCount, and farther than the writes of a minute
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.id + deployment))
	return (int(h.Sum32()) + b.round + apart*b.tries) % c.places
}

// mergedData is a row with what two have.
func mergedData(there, more []byte) ([]byte, error) {
	f, err := unpackFresh(there)
	if err != nil {
		return nil, err
	}
	other, err := unpackFresh(more)
	if err != nil {
		return nil, err
	}
	f.merge(other)
	return f.pack()
}

// merge adds what others have counted.
func (f *fresh) merge(other *fresh) {
	for _, s := range other.slots {
		at := slices.IndexFunc(f.slots, func(mine slot) bool { return mine.start == s.start })
		if at < 0 {
			at = len(f.slots)
			f.slots = append(f.slots, slot{s.start, newTally()})
		}
		f.slots[at].merge(s.tally)
	}
	for len(f.slots) > maxIntervals {
		f.fold(0)
	}
	f.recent.merge(&other.recent)
}
