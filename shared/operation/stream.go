package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gatewright/gatewright/shared/store"
)

// HandleStream advances the operations whose records changed. It answers the
// indexes of the stream records, in rising order, that have to be delivered
// again because the store did not answer. Records may come twice, late, in any
// order or not at all: what they say is not looked at, only whose they are, and
// a sweep finds what never came.
//
// An operation is worked on for one Slice. Giving it back changes its record,
// and so the stream brings it round again, behind whatever else is waiting.
func (e *Engine) HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int) {
	var operations []string
	places := map[string][]int{}
	for i, r := range records {
		id, ok := IDOf(r.Key)
		if !ok || r.New == nil {
			continue
		}
		if places[id] == nil {
			operations = append(operations, id)
		}
		places[id] = append(places[id], i)
	}
	var mu sync.Mutex
	e.each(ctx, operations, func(id string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, places[id]...)
	})
	slices.Sort(failed)
	return failed
}

// Sweep advances all operations that are due: those whose wait is over, whose
// worker has died, or of which no stream record ever came. A schedule calls it
// once a minute. The error joins what kept it from finding or advancing some;
// the next sweep tries those again.
func (e *Engine) Sweep(ctx context.Context) error {
	var mu sync.Mutex
	var errs []error
	due := make([][]string, dueShards)
	for shard := range due {
		var err error
		if due[shard], err = e.due(ctx, shard); err != nil {
			errs = append(errs, err)
		}
	}
	e.each(ctx, interleave(due), func(_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	return errors.Join(errs...)
}

// interleave takes the first of each list, then the second: where there is more
// than a sweep can do, it begins with what is due for longest in each shard.
func interleave(lists [][]string) []string {
	var out []string
	for i := 0; ; i++ {
		before := len(out)
		for _, list := range lists {
			if i < len(list) {
				out = append(out, list[i])
			}
		}
		if len(out) == before {
			return out
		}
	}
}

// due lists the operations of a shard that a sweep has to look at.
func (e *Engine) due(ctx context.Context, shard int) ([]string, error) {
	keys, err := e.table.Keys(ctx, store.Query{
		Index: store.DueIndex, PK: duePartition(shard),
		UpTo: instant(e.now()).Format(dueFormat) + "$", // beyond every "#" and id of this millisecond
	})
	if err != nil {
		return nil, fmt.Errorf("find the operations that are due: %w", err)
	}
	due := make([]string, 0, len(keys))
	for _, k := range keys {
		if id, ok := IDOf(k); ok {
			due = append(due, id)
		}
	}
	return due, nil
}

// each works on the operations for one slice each, Parallel at a time, and
// tells which had an error. It begins none when ctx is about to end.
func (e *Engine) each(ctx context.Context, operations []string, failed func(id string, err error)) {
	var all sync.WaitGroup
	free := make(chan struct{}, e.options.Parallel)
	for _, id := range operations {
		free <- struct{}{}
		until := e.now().Add(e.options.Slice)
		if e.mustStop(ctx, until) {
			failed(id, fmt.Errorf("advance operation %s: %w", id, context.DeadlineExceeded))
			<-free
			continue
		}
		all.Go(func() {
			defer func() { <-free }()
			if _, err := e.run(ctx, id, until); err != nil && !errors.Is(err, store.ErrNotFound) {
				failed(id, fmt.Errorf("advance operation %s: %w", id, err))
			}
		})
	}
	all.Wait()
}
