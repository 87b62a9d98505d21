package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/instance"
)

// The bars (issue 9, parts 2 and 4).
const (
	mostStart = 100 * time.Millisecond
	mostIdle  = 0.001 // of a core
)

// measure starts the product over an empty directory and over a small one, and
// watches it do nothing.
func measure(ctx context.Context, o options, dir string, table *bars.Table) error {
	var empty, small []time.Duration
	for n := range o.starts + 1 { // the first one warms the caches
		fresh := filepath.Join(dir, fmt.Sprint("product", n))
		if err := os.Mkdir(fresh, 0o700); err != nil {
			return fmt.Errorf("make a folder: %w", err)
		}
		i, first, err := startedIn(ctx, fresh, o.binary)
		if err != nil {
			return err
		}
		err = create(ctx, i)
		i.Stop()
		if err != nil {
			return err
		}
		i, second, err := startedIn(ctx, fresh, o.binary)
		if err != nil {
			return err
		}
		i.Stop()
		if n > 0 {
			empty, small = append(empty, first), append(small, second)
		}
	}
	for _, s := range []struct {
		over string
		took []time.Duration
	}{{"an empty directory", empty}, {"a small one", small}} {
		table.Add(fmt.Sprintf("start over %s, median of %d", s.over, o.starts), fmt.Sprint(mostStart),
			fmt.Sprint(load.Median(s.took).Round(time.Millisecond)), load.Median(s.took) <= mostStart)
	}

	i, _, err := startedIn(ctx, filepath.Join(dir, "product0"), o.binary)
	if err != nil {
		return err
	}
	defer i.Stop()
	if err := i.Quiet(ctx); err != nil {
		return err
	}
	before, err := i.Processor()
	if err != nil {
		return err
	}
	select {
	case <-time.After(o.idle):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := i.Processor()
	if err != nil {
		return err
	}
	share := (after - before).Seconds() / o.idle.Seconds()
	table.Add(fmt.Sprintf("processor of an idle product over %v", o.idle), fmt.Sprintf("%.1f %% of a core", 100*mostIdle),
		fmt.Sprintf("%.2f %% (%v)", 100*share, after-before), share < mostIdle)
	memory, err := i.Memory()
	if err != nil {
		return err
	}
	table.Add("memory of an idle product", "", fmt.Sprintf("%d MB, %d MB of them its program's", memory.Now>>20, (memory.Now-memory.Own)>>20), true)
	return nil
}

// startedIn starts the product and gives how long that took, until it is ready.
func startedIn(ctx context.Context, dir, binary string) (*instance.Instance, time.Duration, error) {
	began := time.Now()
	i, err := instance.Start(ctx, dir, "", binary)
	return i, time.Since(began), err
}

// create makes a key bucket, so that the directory is one in use.
func create(ctx context.Context, i *instance.Instance) error {
	return i.Into(ctx, nil, http.MethodPost, "/v1/accounts/demo/key-buckets", `{"name":"orders-bucket"}`)
}
