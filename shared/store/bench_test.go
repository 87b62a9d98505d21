package store_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// BenchmarkCommit makes commits of four conditional writes of 600 bytes, on disk:
//
//	go test ./shared/store -run='^$' -bench=Commit
func BenchmarkCommit(b *testing.B) {
	for _, writers := range []int{1, 16} {
		b.Run(fmt.Sprint("embedded/writers=", writers), func(b *testing.B) {
			engine, err := embedded.Open(b.Context(), embedded.Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = engine.Close() })
			commits(b, storetest.Over(b, engine), writers)
		})
		b.Run(fmt.Sprint("dynamodb/writers=", writers), func(b *testing.B) {
			table, _, _ := storetest.NewDynamoDB(b)
			commits(b, table, writers)
		})
	}
}

func commits(b *testing.B, table *store.Table, writers int) {
	b.Helper()
	record := thing{Name: "x", Data: make([]byte, 550)}
	var n atomic.Int64
	b.SetParallelism(writers) // of GOMAXPROCS(1): see -cpu
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			at := n.Add(1)
			var writes []store.Write
			for i := range 4 {
				writes = append(writes, store.Create(key(fmt.Sprint("bench-", at), i), record))
			}
			if err := table.Commit(b.Context(), writes...); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkRead reads one item of many.
func BenchmarkRead(b *testing.B) {
	engine, err := embedded.Open(b.Context(), embedded.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = engine.Close() })
	dynamo, _, _ := storetest.NewDynamoDB(b)
	for name, table := range map[string]*store.Table{"embedded": storetest.Over(b, engine), "dynamodb": dynamo} {
		b.Run(name, func(b *testing.B) {
			const items = 1000
			for at := range items {
				commit(b, table, store.Put(key("read", at), thing{Name: "x", Data: make([]byte, 550)}))
			}
			for at := 0; b.Loop(); at++ {
				get(b, table, key("read", at%items))
			}
		})
	}
}
