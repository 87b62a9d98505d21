package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
)

// The bars (issue 9, parts 2 and 4).
const (
	maxStart = 100 * time.Millisecond
	maxIdle  = 0.001 // of a core
)

const (
	// starts is how often the product is started over each kind of directory.
	starts = 11
	// idle is how long the product is watched without a request.
	idle = time.Minute
)

// start measures how long the product takes to start over an empty directory and over one
// with a key bucket, and what it uses without a request.
func start(ctx context.Context, dir, binary string, table *bars.Table) error {
	var empty, used []time.Duration
	for n := range starts + 1 { // the first one warms the caches
		began := time.Now()
		c, err := startedIn(ctx, filepath.Join(dir, fmt.Sprint(n)), binary)
		if err != nil {
			return err
		}
		first := time.Since(began)
		err = c.Into(ctx, nil, http.MethodPost, buckets, `{"name":"orders-bucket"}`)
		c.Stop()
		if err != nil {
			return err
		}
		began = time.Now()
		if c, err = startedIn(ctx, filepath.Join(dir, fmt.Sprint(n)), binary); err != nil {
			return err
		}
		second := time.Since(began)
		c.Stop()
		if n > 0 {
			empty, used = append(empty, first), append(used, second)
		}
	}
	for _, s := range []struct {
		over string
		took []time.Duration
	}{{"an empty directory", empty}, {"a small one", used}} {
		table.Add(fmt.Sprintf("start over %s, median of %d", s.over, starts), fmt.Sprint(maxStart),
			fmt.Sprint(load.Median(s.took).Round(time.Millisecond)), load.Median(s.took) <= maxStart)
	}
	return idleProduct(ctx, filepath.Join(dir, "0"), binary, table)
}

// idleProduct measures what a product that was used before takes without a request.
func idleProduct(ctx context.Context, dir, binary string, table *bars.Table) error {
	c, err := startedIn(ctx, dir, binary)
	if err != nil {
		return err
	}
	defer c.Stop()
	if err := c.Quiet(ctx); err != nil {
		return err
	}
	before, err := c.Processor()
	if err != nil {
		return err
	}
	select {
	case <-time.After(idle):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := c.Processor()
	if err != nil {
		return err
	}
	share := (after - before).Seconds() / idle.Seconds()
	table.Add(fmt.Sprintf("processor of an idle product over %v", idle), fmt.Sprintf("%.1f %% of a core", 100*maxIdle),
		fmt.Sprintf("%.2f %% (%v)", 100*share, after-before), share < maxIdle)
	memory, err := c.Memory()
	if err != nil {
		return err
	}
	table.Add("memory of an idle product", "", fmt.Sprintf("%d MB, %d MB of them its program's", memory.Now>>20, (memory.Now-memory.Own)>>20), true)
	return nil
}
