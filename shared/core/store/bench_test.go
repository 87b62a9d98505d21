package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// BenchmarkCommit commits transactions of four conditional writes of 600 bytes, in the
// embedded store, which syncs its files on disk, and in the DynamoDB emulator:
//
//	go test ./shared/core/store -run='^$' -bench=Commit
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprint("embedded/writers=", writers), func(b *testing.B) {
			engine, err := embedded.Open(b.Context(), embedded.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = engine.Close() })
			benchmarkCommits(b, storetest.NewWithBackend(b, engine), writers)
		})
		b.Run(fmt.Sprint("dynamodb/writers=", writers), func(b *testing.B) {
			table, _, _ := storetest.NewDynamoDB(b)
			benchmarkCommits(b, table, writers)
		})
	}
}

func benchmarkCommits(b *testing.B, table *store.Table, writers int) {
	b.Helper()
	record := thing{Name: "x", Data: make([]byte, 550)}
	var n atomic.Int64
	// RunParallel starts writers*GOMAXPROCS goroutines. Use -cpu=1 to start exactly writers goroutines.
	b.SetParallelism(writers)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			item := n.Add(1)
			var writes []store.Write
			for i := range 4 {
				writes = append(writes, store.Create(key(fmt.Sprint("bench-", item), i), record))
			}
			if err := table.Commit(b.Context(), writes...); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkRead reads one of many items.
func BenchmarkRead(b *testing.B) {
	engine, err := embedded.Open(b.Context(), embedded.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = engine.Close() })
	dynamo, _, _ := storetest.NewDynamoDB(b)
	for name, table := range map[string]*store.Table{"embedded": storetest.NewWithBackend(b, engine), "dynamodb": dynamo} {
		b.Run(name, func(b *testing.B) {
			const items = 1000
			for i := range items {
				commit(b, table, store.Put(key("read", i), thing{Name: "x", Data: make([]byte, 550)}))
			}
			for i := 0; b.Loop(); i++ {
				get(b, table, key("read", i%items))
			}
		})
	}
}
