package transfer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
)

// BenchmarkMove exports items that are as large as consumers. It imports them into a data directory, and into a table
// in memory with the same transactions as for DynamoDB. The second import measures our own work without DynamoDB's
// latency.
func BenchmarkMove(b *testing.B) {
	const items = 20_000
	from := &fixture{memory.New(), blob.NewMemory(clock)}
	for i := range items {
		item := itemAt(store.KeyIn("consumers", fmt.Sprintf("%06d", i)), store.Item{
			"name": textValue(fmt.Sprintf("consumer-%06d", i)), "metadata": textValue(fmt.Sprintf("%0400d", i)),
		})
		err := from.table.Transact(b.Context(), fmt.Sprint("t", i),
			[]store.Write{{Kind: store.PutKind, Key: store.KeyOf(item), Item: item}})
		if err != nil {
			b.Fatal(err)
		}
	}
	file, key := filepath.Join(b.TempDir(), "file"), filepath.Join(b.TempDir(), "key")
	if _, err := transfer.CreateKey(key); err != nil {
		b.Fatal(err)
	}
	write := func() error {
		out, err := os.Create(file)
		if err != nil {
			return err
		}
		_, err = transfer.Write(b.Context(), from.source(), key, out)
		return errors.Join(err, out.Close())
	}
	if err := write(); err != nil {
		b.Fatal(err)
	}
	for _, move := range []struct {
		name string
		run  func() error
	}{
		{"export", write},
		{"import into a directory", func() error {
			dir := filepath.Join(b.TempDir(), "data")
			_, err := transfer.ImportDirectory(b.Context(), file, key, dir)
			return errors.Join(err, os.RemoveAll(dir))
		}},
		{"import into a table", func() error {
			target := newEmptyFixture()
			_, err := transfer.Import(b.Context(), file, key, newRemote(b, target, target.table, &fakeKeeper{}))
			return err
		}},
	} {
		b.Run(move.name, func(b *testing.B) {
			for b.Loop() {
				if err := move.run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*items)/b.Elapsed().Seconds(), "items/s")
		})
	}
}
