// Command largebucket measures what the size of a key bucket costs: it fills
// buckets of 1,000 and of 100,000 consumers through the API of a product of its
// own, lists them, deletes the large one, and waits until nothing of it is left;
// it gives another product a bucket of a million, and looks at its memory and
// at how it starts again after kills; and it measures how long a product without large
// buckets takes to start, and what it uses without a request.
//
// `make bench` runs it. It fails when a figure is beyond its bar, or when the bucket
// can still be seen after its deletion.
//
// Read main.go, then million.go and start.go; client.go speaks to the product.
package main

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/instance"
)

func main() {
	binary := flag.String("binary", "", "the product's binary, as `go build ./local` makes it")
	consumers := flag.Int("consumers", 100_000, "how many consumers the large bucket has")
	most := flag.Int("most", 1_000_000, "how many consumers the product has whose memory and start are measured; 0 for not to")
	flag.Parse()
	bars.Main(context.Background(), "largebucket", func(ctx context.Context, dir string, table *bars.Table) error {
		if err := start(ctx, filepath.Join(dir, "start"), *binary, table); err != nil {
			return err
		}
		if err := throughAPI(ctx, filepath.Join(dir, "api"), *binary, *consumers, table); err != nil || *most == 0 {
			return err
		}
		return million(ctx, filepath.Join(dir, "million"), *binary, *most, table)
	})
}

const (
	small    = 1000
	writers  = 16
	lists    = 20
	deadline = 100 * time.Millisecond // of the deletion's answer (issue 3, part 6)
	emptying = 30 * time.Minute
)

// startedIn starts a product in a folder that is made.
func startedIn(ctx context.Context, dir, binary string) (client, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return client{}, fmt.Errorf("make a folder: %w", err)
	}
	i, err := instance.Start(ctx, dir, "", binary)
	if err != nil {
		return client{}, err
	}
	return newClient(ctx, i)
}

// throughAPI measures a bucket that was filled as clients fill it.
func throughAPI(ctx context.Context, dir, binary string, consumers int, table *bars.Table) error {
	c, err := startedIn(ctx, dir, binary)
	if err != nil {
		return err
	}
	defer c.Stop()
	began := time.Now()
	if err := c.fill(ctx, "small", small); err != nil {
		return err
	}
	if err := c.fill(ctx, "large", consumers); err != nil {
		return err
	}
	table.Add(fmt.Sprintf("consumers created through the API by %d clients", writers), "",
		fmt.Sprintf("%.0f a second", float64(consumers+small)/time.Since(began).Seconds()), true)
	if err := c.Quiet(ctx); err != nil {
		return err
	}
	size, err := bytesBelow(filepath.Join(c.Data(), datadir.Engine))
	if err != nil {
		return err
	}
	table.Add(fmt.Sprintf("disk for each of %d consumers, a day's changes and audit records included", consumers+small), "",
		fmt.Sprintf("%d bytes", size/int64(consumers+small)), true)
	first, err := c.first(ctx, "small")
	if err != nil {
		return err
	}
	second, err := c.first(ctx, "large")
	if err != nil {
		return err
	}
	table.Add(fmt.Sprintf("list 100 of %d, median of %d", consumers, lists), "", fmt.Sprintf("%s, %.2f times that of %d", round(second), second.Seconds()/first.Seconds(), small), true)
	began = time.Now()
	if err := c.listAll(ctx, "large", consumers); err != nil {
		return err
	}
	table.Add(fmt.Sprintf("list all %d, in pages of %d", consumers, page), "", fmt.Sprint(time.Since(began).Round(time.Millisecond)), true)

	began = time.Now()
	if err := c.do(ctx, http.MethodDelete, bucket("large"), "", http.StatusNoContent, nil); err != nil {
		return err
	}
	deleted := time.Since(began)
	table.Add(fmt.Sprintf("delete the bucket of %d", consumers), fmt.Sprint(deadline), fmt.Sprint(round(deleted)), deleted < deadline)
	if err := c.do(ctx, http.MethodGet, bucket("large"), "", http.StatusNotFound, nil); err != nil {
		return err
	}
	began = time.Now()
	if err := c.emptied(ctx, consumers); err != nil {
		return err
	}
	table.Add("empty it afterwards, with a second pass after a minute", "", fmt.Sprint(time.Since(began).Round(time.Second)), true)
	return nil
}

func round(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }

// bytesBelow is how much the files in a folder hold.
func bytesBelow(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		total += info.Size()
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("look at the size of %s: %w", dir, err)
	}
	return total, nil
}

// sorted gives the median and the longest.
func sorted(took []time.Duration) (median, longest time.Duration) {
	slices.Sort(took)
	return took[len(took)/2], took[len(took)-1]
}
