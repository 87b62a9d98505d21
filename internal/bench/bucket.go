package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/local/instance/fill"
)

// The limits of the figures about key buckets and the embedded engine.
const (
	maxEngineStart = 100 * time.Millisecond
	maxUnused      = 0.001 // of a core
	maxDelete      = 100 * time.Millisecond
	maxLarge       = 200 << 20 // bytes
	maxRestart     = time.Second
)

func largeBuckets() []scenario {
	return []scenario{{
		title: "The embedded engine: large key buckets",
		text: "The first figures are the start of a product without large buckets, and the resources that it uses when it is idle. Then come a bucket with 100,000 consumers that clients created through the API, and\n" +
			"one with a million that the product's own functions created in one process. The product empties a deleted bucket in two passes: the second one runs a minute later, for items that a slow writer may have added.",
		options: "starts=11 unused-seconds=60 consumers=100000 most=1000000 kills=5",
		run: func(ctx context.Context, m *measurement) error {
			if err := engineStart(ctx, m); err != nil {
				return err
			}
			m.Close()
			if err := throughAPI(ctx, m); err != nil {
				return err
			}
			m.Close()
			return million(ctx, m)
		},
	}}
}

const buckets = "/v1/accounts/demo/key-buckets"

// bucketOf returns the path of a bucket.
func bucketOf(name string) string { return buckets + "/" + name + "-bucket" }

// consumerBody returns the request body that creates consumer n.
func consumerBody(n int) string { return fmt.Sprintf(`{"name":"c%07d"}`, n) }

// manager sends requests to the management API, with several account keys in turn.
type manager struct {
	*world.Product
	turns *instance.Turns
}

// manage starts the product with a data folder. turns are the keys of an earlier start, or nil for the first start.
func manage(ctx context.Context, m *measurement, folder string, turns *instance.Turns) (*manager, error) {
	product, err := m.Run(ctx, folder)
	if err != nil {
		return nil, err
	}
	product.Client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: makers}}
	if turns == nil {
		turns, err = product.Turns(ctx)
	}
	return &manager{product, turns}, err
}

// do sends a request, and returns an error if the response has another status.
func (c *manager) do(ctx context.Context, method, path, body string, status int, out any) error {
	got, raw, err := c.Ask(ctx, c.turns.Next(), method, path, body)
	if err != nil {
		return err
	}
	if got != status {
		return fmt.Errorf("%s %s: status %d, want %d: %s", method, path, got, status, raw)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(raw, out)
}

// engineStart measures how long the product takes to start with an empty data folder and with one that has a key bucket, and the
// processor time and memory of the idle product.
func engineStart(ctx context.Context, m *measurement) error {
	var empty, used []time.Duration
	count := m.Number("starts")
	for n := range count + 1 { // the first one fills the caches
		for _, times := range []*[]time.Duration{&empty, &used} {
			began := time.Now()
			product, err := m.Run(ctx, fmt.Sprint("start-", n))
			if err != nil {
				return err
			}
			if n > 0 {
				*times = append(*times, time.Since(began))
			}
			if times == &empty {
				err = product.Into(ctx, nil, http.MethodPost, buckets, `{"name":"orders-bucket"}`)
			}
			product.Stop()
			if err != nil {
				return err
			}
		}
	}
	for i, times := range [][]time.Duration{empty, used} {
		median, _ := sorted(times)
		m.Row(fmt.Sprintf("start with %s, median of %d", []string{"an empty data directory", "a small one"}[i], count), millis(maxEngineStart), millis(median), median <= maxEngineStart)
	}
	product, err := m.Run(ctx, "start-0")
	if err != nil {
		return err
	}
	if err := product.Quiet(ctx); err != nil {
		return err
	}
	before, err := product.CPU()
	if err != nil {
		return err
	}
	unused := time.Duration(m.Number("unused-seconds")) * time.Second
	if err := world.Wait(ctx, unused); err != nil {
		return err
	}
	after, err := product.CPU()
	if err != nil {
		return err
	}
	share := (after - before).Seconds() / unused.Seconds()
	m.Row(fmt.Sprintf("processor time of an idle product over %v", unused), fmt.Sprintf("%.1f %% of a core", 100*maxUnused),
		fmt.Sprintf("%.2f %% (%v)", 100*share, (after-before).Round(time.Millisecond)), share < maxUnused)
	memory, err := product.Memory()
	if err != nil {
		return err
	}
	m.Row("memory of an idle product", "", fmt.Sprintf("%s, %s of it mapped from files", megabytes(memory.Now), megabytes(memory.Now-memory.Own)), true)
	return nil
}

// throughAPI measures a bucket whose consumers were created through the API.
func throughAPI(ctx context.Context, m *measurement) error {
	const small, lists = 1000, 20
	count := m.Number("consumers")
	c, err := manage(ctx, m, "api", nil)
	if err != nil {
		return err
	}
	began := time.Now()
	for name, n := range map[string]int{"small": small, "large": count} {
		if err := c.do(ctx, http.MethodPost, buckets, fmt.Sprintf(`{"name":"%s-bucket"}`, name), http.StatusOK, nil); err != nil {
			return err
		}
		if err := each(ctx, n, func(ctx context.Context, i int) error {
			return c.do(ctx, http.MethodPost, bucketOf(name)+"/consumers", consumerBody(i), http.StatusOK, nil)
		}); err != nil {
			return err
		}
	}
	m.Row(fmt.Sprintf("consumers created through the API by %d clients", makers), "", fmt.Sprintf("%.0f a second", float64(count+small)/time.Since(began).Seconds()), true)
	if err := c.Quiet(ctx); err != nil {
		return err
	}
	size, err := bytesBelow(filepath.Join(c.Data(), datadir.Engine))
	if err != nil {
		return err
	}
	m.Row(fmt.Sprintf("disk for each of %d consumers, with its changes and audit records", count+small), "", fmt.Sprintf("%d bytes", size/int64(count+small)), true)
	medians := map[string]time.Duration{}
	for _, name := range []string{"small", "large"} {
		var took []time.Duration
		for range lists {
			began := time.Now()
			if n, _, err := c.list(ctx, name, 100, ""); err != nil || n != 100 {
				return errors.Join(fmt.Errorf("list 100 consumers: got %d", n), err)
			}
			took = append(took, time.Since(began))
		}
		medians[name], _ = sorted(took)
	}
	m.Row(fmt.Sprintf("list 100 of %d, median of %d", count, lists), "", fmt.Sprintf("%s, %.2f times that of %d", tenths(medians["large"]), medians["large"].Seconds()/medians["small"].Seconds(), small), true)
	began = time.Now()
	found := 0
	for after := "none"; after != ""; {
		var n int
		if n, after, err = c.list(ctx, "large", page, strings.TrimPrefix(after, "none")); err != nil {
			return err
		}
		found += n
	}
	if found != count {
		return fmt.Errorf("list all consumers: got %d, want %d", found, count)
	}
	m.Row(fmt.Sprintf("list all %d, in pages of %d", count, page), "", tenths(time.Since(began)), true)

	began = time.Now()
	if err := c.do(ctx, http.MethodDelete, bucketOf("large"), "", http.StatusNoContent, nil); err != nil {
		return err
	}
	deleted := time.Since(began)
	m.Row(fmt.Sprintf("delete the bucket of %d", count), tenths(maxDelete), tenths(deleted), deleted < maxDelete)
	if err := c.do(ctx, http.MethodGet, bucketOf("large"), "", http.StatusNotFound, nil); err != nil {
		return err
	}
	began = time.Now()
	if err := c.emptied(ctx); err != nil {
		return err
	}
	m.Row("empty it after the deletion, with the second pass a minute later", "", fmt.Sprint(time.Since(began).Round(time.Second)), true)
	return nil
}

func tenths(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// list requests a page of a bucket's consumers. It returns the number of consumers on the page, and where the next page begins.
func (c *manager) list(ctx context.Context, name string, limit int, after string) (n int, next string, err error) {
	path := fmt.Sprintf("%s/consumers?limit=%d", bucketOf(name), limit)
	if after != "" {
		path += "&after=" + after
	}
	var answer struct {
		Data []struct{}
		Next string
	}
	err = c.do(ctx, http.MethodGet, path, "", http.StatusOK, &answer)
	return len(answer.Data), answer.Next, err
}

// emptied waits until the log says that the operation that empties the bucket has ended.
func (c *manager) emptied(ctx context.Context) error {
	const patience, interval = 30 * time.Minute, 200 * time.Millisecond
	for began := time.Now(); time.Since(began) < patience; {
		log, err := os.ReadFile(filepath.Join(c.Data(), "logs", "gatewright.log"))
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for line := range strings.SplitSeq(string(log), "\n") {
			if strings.Contains(line, `"kind":"key-bucket-delete"`) && strings.Contains(line, `"status":"success"`) {
				return nil
			}
		}
		if err := world.Wait(ctx, interval); err != nil {
			return err
		}
	}
	return fmt.Errorf("the bucket is not empty after %s", patience)
}

// million measures a product with a very large bucket while clients use it, and how long it takes to start again after it is killed.
func million(ctx context.Context, m *measurement) error {
	count := m.Number("most")
	if count == 0 {
		return nil
	}
	c, err := manage(ctx, m, "million", nil)
	if err != nil {
		return err
	}
	c.Stop()
	began := time.Now()
	if err := fill.Make(ctx, c.Data(), c.Key, fill.Bucket{Buckets: buckets, Name: "million-bucket", Consumers: count, Consumer: consumerBody}); err != nil {
		return fmt.Errorf("fill a bucket: %w", err)
	}
	m.Row(fmt.Sprintf("create %d consumers in process, without HTTP and without waiting for the disk", count), "", fmt.Sprint(time.Since(began).Round(time.Second)), true)
	if c, err = manage(ctx, m, "million", c.turns); err != nil {
		return err
	}
	if err := c.Quiet(ctx); err != nil { // it processes the changes, and compacts its tables
		return err
	}
	var most int64
	var restarts []time.Duration
	for range m.Number("kills") {
		if err := c.use(ctx, count); err != nil {
			return err
		}
		memory, err := c.Memory()
		if err != nil {
			return err
		}
		most = max(most, memory.Most)
		c.Kill()
		began := time.Now()
		if c, err = manage(ctx, m, "million", c.turns); err != nil {
			return err
		}
		restarts = append(restarts, time.Since(began))
	}
	if err := c.Quiet(ctx); err != nil {
		return err
	}
	memory, err := c.Memory()
	if err != nil {
		return err
	}
	if err := c.do(ctx, http.MethodGet, fmt.Sprintf("%s/consumers/c%07d", bucketOf("million"), count-1), "", http.StatusOK, nil); err != nil {
		return err
	}
	median, longest := sorted(restarts)
	m.Row(fmt.Sprintf("memory with %d consumers, at most, while %d clients read, list and write", count, makers), megabytes(maxLarge), megabytes(most), most < maxLarge)
	m.Row("memory with them after a start, when idle", "", fmt.Sprintf("%s, %s of it mapped from files", megabytes(memory.Now), megabytes(memory.Now-memory.Own)), true)
	m.Row(fmt.Sprintf("start with them after `kill -9`, median of %d", len(restarts)), fmt.Sprint(maxRestart), fmt.Sprintf("%s, the longest %s", millis(median), millis(longest)), median < maxRestart)
	return nil
}

// use lets clients read consumers all over the bucket, list some, and create and delete others, for some seconds.
func (c *manager) use(ctx context.Context, count int) error {
	const while = 3 * time.Second
	in := bucketOf("million") + "/consumers"
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for w := range makers {
		group.Go(func() error {
			for i := 0; time.Since(began) < while; i++ {
				name, extra := fmt.Sprintf("%s/c%07d", in, (w+1)*(i+1)*stride%count), fmt.Sprintf("extra-%d-%d", w, i)
				if err := errors.Join(
					c.do(ctx, http.MethodGet, name, "", http.StatusOK, nil),
					c.do(ctx, http.MethodGet, in+"?limit=100", "", http.StatusOK, nil),
					c.do(ctx, http.MethodPost, in+"?with-api-key=true", `{"name":"`+extra+`"}`, http.StatusOK, nil),
					c.do(ctx, http.MethodDelete, in+"/"+extra, "", http.StatusNoContent, nil),
				); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
