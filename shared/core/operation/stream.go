package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gatewright/gatewright/shared/core/store"
)

// HandleStream advances the operations whose records have changed. It returns the indexes, in ascending
// order, of the stream records that have to be delivered again because the store was unavailable or ctx was
// about to end. Stream records can arrive twice, late, in any order or not at all. HandleStream uses only the
// keys of records that were not deleted. A sweep finds operations whose stream records never arrived.
//
// HandleStream begins steps of each operation for one Slice, and then releases the operation. Releasing it
// changes its record, so the stream delivers it again, after everything else that is waiting.
func (e *Engine) HandleStream(ctx context.Context, records []store.StreamRecord) (failed []int) {
	var operations []string
	indexes := map[string][]int{}
	for i, r := range records {
		id, ok := IDOf(r.Key)
		if !ok || r.New == nil {
			continue
		}
		if indexes[id] == nil {
			operations = append(operations, id)
		}
		indexes[id] = append(indexes[id], i)
	}
	var mu sync.Mutex
	e.runAll(ctx, operations, func(id string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, indexes[id]...)
	})
	slices.Sort(failed)
	return failed
}

// Sweep advances all operations that are due: operations whose wait is over, whose worker has died,
// or whose stream record never arrived. A schedule calls Sweep once a minute. Sweep returns the
// joined errors of the operations that it could not find or advance. The next sweep tries them again.
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
	e.runAll(ctx, interleave(due), func(_ string, err error) {
		mu.Lock()
		defer mu.Unlock()
		errs = append(errs, err)
	})
	return errors.Join(errs...)
}

// interleave takes the first element of each list, then the second of each, and so on. So if there is more
// work than one sweep can do, the sweep begins with the operations that have been due longest in each shard.
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

// due returns the ids of the operations in a shard that are due.
func (e *Engine) due(ctx context.Context, shard int) ([]string, error) {
	keys, err := e.table.Keys(ctx, store.Query{
		Index: store.DueIndex, PK: duePartition(shard),
		UpTo: instant(e.now()).Format(dueFormat) + "$", // "$" sorts after "#", so the keys of this millisecond are included
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

// runAll works on each operation for at most one Slice (a step that has begun can last longer), on at most
// Options.Parallel operations at a time. It calls onError for each operation with an error, except if the operation
// does not exist. When ctx is about to end, runAll starts no further operation, and calls onError for the rest.
func (e *Engine) runAll(ctx context.Context, operations []string, onError func(id string, err error)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, e.options.Parallel)
	for _, id := range operations {
		slots <- struct{}{}
		until := e.now().Add(e.options.Slice)
		if e.mustStop(ctx, until) {
			onError(id, fmt.Errorf("advance operation %s: %w", id, context.DeadlineExceeded))
			<-slots
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if _, err := e.run(ctx, id, until); err != nil && !errors.Is(err, store.ErrNotFound) {
				onError(id, fmt.Errorf("advance operation %s: %w", id, err))
			}
		})
	}
	wg.Wait()
}
