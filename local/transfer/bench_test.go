package transfer_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
)

// BenchmarkMove exports items of the size of a consumer's and imports them: into a data directory,
// and, as to DynamoDB, commit by commit into a table in memory, which is the part of ours.
func BenchmarkMove(b *testing.B) {
	const items = 20_000
	from := &world{memory.New(), blob.NewMemory(clock)}
	for i := range items {
		item := itemAt(store.In("consumers", fmt.Sprintf("%06d", i)), store.Item{
			"name": text(fmt.Sprintf("consumer-%06d", i)), "metadata": text(fmt.Sprintf("%0400d", i)),
		})
		err := from.table.Transact(b.Context(), fmt.Sprint("t", i), []store.Write{{Kind: store.PutKind, Key: store.KeyOf(item), Item: item}})
		if err != nil {
			b.Fatal(err)
		}
	}
	file, key := filepath.Join(b.TempDir(), "file"), filepath.Join(b.TempDir(), "key")
	if _, err := transfer.MakeKey(key); err != nil {
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
		does func() error
	}{
		{"export", write},
		{"import into a directory", func() error {
			dir := filepath.Join(b.TempDir(), "data")
			_, err := transfer.ImportDirectory(b.Context(), file, key, dir)
			return errors.Join(err, os.RemoveAll(dir))
		}},
		{"import into a table", func() error {
			to := empty()
			_, err := transfer.Import(b.Context(), file, key, remote(b, to, to.table, &keeper{}))
			return err
		}},
	} {
		b.Run(move.name, func(b *testing.B) {
			for b.Loop() {
				if err := move.does(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N*items)/b.Elapsed().Seconds(), "items/s")
		})
	}
}
