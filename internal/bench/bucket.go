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

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/internal/system/instance/fill"
	"github.com/gatewright/gatewright/local/datadir"
)

// The limits of the figures about key buckets and the embedded engine.
const (
	maxEngineStart = 100 * time.Millisecond
	maxIdleCPU     = 0.001 // fraction of a core
	maxDelete      = 100 * time.Millisecond
	maxLargeMemory = 200 << 20 // bytes
	maxRestart     = time.Second
)

func largeBuckets() []scenario {
	return []scenario{{
		title: "The embedded engine: large key buckets",
		text: "The first figures are the start of a product without large buckets, and the resources that it uses when it " +
			"is idle. Then come a bucket with 100,000 consumers that clients created through the API, and\n" +
			"one with a million that the product's own functions created in one process. The product empties a deleted bucket " +
			"in two passes: the second one runs a minute later, for items that a slow writer may have added.",
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

// buckets is the path of the key buckets.
const buckets = "/v1/accounts/demo/key-buckets"

// bucketOf returns the path of the bucket NAME-bucket.
func bucketOf(name string) string { return buckets + "/" + name + "-bucket" }

// consumerBody returns the request body that creates consumer n.
func consumerBody(n int) string { return fmt.Sprintf(`{"name":"c%07d"}`, n) }

// manager is a running product. It sends requests to the management API, with several account keys in turn.
type manager struct {
	*fixture.Product
	turns *instance.KeyRotation
}

// startManager starts the product with a data folder. turns contains the account keys that an earlier start of the same
// folder created. With nil, startManager creates the keys.
func startManager(ctx context.Context, m *measurement, folder string, turns *instance.KeyRotation) (*manager, error) {
	product, err := m.Run(ctx, folder)
	if err != nil {
		return nil, err
	}
	product.Client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: concurrency}}
	if turns == nil {
		turns, err = product.NewKeyRotation(ctx)
	}
	return &manager{product, turns}, err
}

// do sends a request, and returns an error if the response does not have the given status. Unless out is nil, it
// decodes the body of the response into out.
func (m *manager) do(ctx context.Context, method, path, body string, status int, out any) error {
	got, raw, err := m.Request(ctx, m.turns.Next(), method, path, body)
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

// engineStart measures how long the product takes to start with an empty data folder and with a folder that contains a
// key bucket. It also measures the processor time and memory of the idle product.
func engineStart(ctx context.Context, m *measurement) error {
	var empty, used []time.Duration
	count := m.Number("starts")
	for n := range count + 1 { // the first start fills the caches and is not counted
		for _, times := range []*[]time.Duration{&empty, &used} {
			startedAt := time.Now()
			product, err := m.Run(ctx, fmt.Sprint("start-", n))
			if err != nil {
				return err
			}
			if n > 0 {
				*times = append(*times, time.Since(startedAt))
			}
			if times == &empty {
				err = product.RequestJSON(ctx, nil, http.MethodPost, buckets, `{"name":"orders-bucket"}`)
			}
			product.Stop()
			if err != nil {
				return err
			}
		}
	}
	for i, times := range [][]time.Duration{empty, used} {
		median, _ := medianAndLongest(times)
		m.Row(fmt.Sprintf("start with %s, median of %d", []string{"an empty data directory", "a small one"}[i], count),
			millis(maxEngineStart), millis(median), median <= maxEngineStart)
	}
	product, err := m.Run(ctx, "start-0")
	if err != nil {
		return err
	}
	if err := product.WaitIdle(ctx); err != nil {
		return err
	}
	before, err := product.CPU()
	if err != nil {
		return err
	}
	unused := time.Duration(m.Number("unused-seconds")) * time.Second
	if err := fixture.Wait(ctx, unused); err != nil {
		return err
	}
	after, err := product.CPU()
	if err != nil {
		return err
	}
	share := (after - before).Seconds() / unused.Seconds()
	m.Row(fmt.Sprintf("processor time of an idle product over %v", unused),
		fmt.Sprintf("%.1f %% of a core", 100*maxIdleCPU),
		fmt.Sprintf("%.2f %% (%v)", 100*share, (after-before).Round(time.Millisecond)), share < maxIdleCPU)
	memory, err := product.Memory()
	if err != nil {
		return err
	}
	m.Row("memory of an idle product", "", fmt.Sprintf("%s, %s of it mapped from files", megabytes(memory.Now),
		megabytes(memory.Now-memory.Anonymous)), true)
	return nil
}

// throughAPI creates a small and a large bucket through the API. It measures the creation, the disk, lists, and the
// deletion of the large bucket.
func throughAPI(ctx context.Context, m *measurement) error {
	const small, lists = 1000, 20
	count := m.Number("consumers")
	c, err := startManager(ctx, m, "api", nil)
	if err != nil {
		return err
	}
	startedAt := time.Now()
	for name, n := range map[string]int{"small": small, "large": count} {
		if err := c.do(ctx, http.MethodPost, buckets, fmt.Sprintf(`{"name":"%s-bucket"}`, name), http.StatusOK,
			nil); err != nil {
			return err
		}
		if err := forEach(ctx, n, func(ctx context.Context, i int) error {
			return c.do(ctx, http.MethodPost, bucketOf(name)+"/consumers", consumerBody(i), http.StatusOK, nil)
		}); err != nil {
			return err
		}
	}
	m.Row(fmt.Sprintf("consumers created through the API by %d clients", concurrency), "",
		fmt.Sprintf("%.0f a second", float64(count+small)/time.Since(startedAt).Seconds()), true)
	if err := c.WaitIdle(ctx); err != nil {
		return err
	}
	size, err := bytesBelow(filepath.Join(c.Data(), datadir.Engine))
	if err != nil {
		return err
	}
	m.Row(fmt.Sprintf("disk for each of %d consumers, with its changes and audit records", count+small), "",
		fmt.Sprintf("%d bytes", size/int64(count+small)), true)
	medians := map[string]time.Duration{}
	for _, name := range []string{"small", "large"} {
		var durations []time.Duration
		for range lists {
			startedAt := time.Now()
			if n, _, err := c.list(ctx, name, 100, ""); err != nil || n != 100 {
				return errors.Join(fmt.Errorf("list 100 consumers: got %d", n), err)
			}
			durations = append(durations, time.Since(startedAt))
		}
		medians[name], _ = medianAndLongest(durations)
	}
	m.Row(fmt.Sprintf("list 100 of %d, median of %d", count, lists), "",
		fmt.Sprintf("%s, %.2f times that of %d", tenths(medians["large"]),
			medians["large"].Seconds()/medians["small"].Seconds(), small), true)
	startedAt = time.Now()
	total := 0
	for after := "none"; after != ""; {
		var n int
		if n, after, err = c.list(ctx, "large", pageSize, strings.TrimPrefix(after, "none")); err != nil {
			return err
		}
		total += n
	}
	if total != count {
		return fmt.Errorf("list all consumers: got %d, want %d", total, count)
	}
	m.Row(fmt.Sprintf("list all %d, in pages of %d", count, pageSize), "", tenths(time.Since(startedAt)), true)

	startedAt = time.Now()
	if err := c.do(ctx, http.MethodDelete, bucketOf("large"), "", http.StatusNoContent, nil); err != nil {
		return err
	}
	deleted := time.Since(startedAt)
	m.Row(fmt.Sprintf("delete the bucket of %d", count), tenths(maxDelete), tenths(deleted), deleted < maxDelete)
	if err := c.do(ctx, http.MethodGet, bucketOf("large"), "", http.StatusNotFound, nil); err != nil {
		return err
	}
	startedAt = time.Now()
	if err := c.waitUntilEmpty(ctx); err != nil {
		return err
	}
	m.Row("empty it after the deletion, with the second pass a minute later", "",
		fmt.Sprint(time.Since(startedAt).Round(time.Second)), true)
	return nil
}

// tenths returns a duration as a text, rounded to a tenth of a millisecond.
func tenths(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

// list requests a page of a bucket's consumers. It returns the number of consumers on the page, and the value of after
// for the next page.
func (m *manager) list(ctx context.Context, name string, limit int, after string) (n int, next string, err error) {
	path := fmt.Sprintf("%s/consumers?limit=%d", bucketOf(name), limit)
	if after != "" {
		path += "&after=" + after
	}
	var response struct {
		Data []struct{}
		Next string
	}
	err = m.do(ctx, http.MethodGet, path, "", http.StatusOK, &response)
	return len(response.Data), response.Next, err
}

// waitUntilEmpty waits until the log reports the end of the operation that empties the deleted bucket.
func (m *manager) waitUntilEmpty(ctx context.Context) error {
	const timeout, interval = 30 * time.Minute, 200 * time.Millisecond
	for startedAt := time.Now(); time.Since(startedAt) < timeout; {
		log, err := os.ReadFile(filepath.Join(m.Data(), "logs", "gatewright.log"))
		if err != nil {
			return fmt.Errorf("read the log: %w", err)
		}
		for line := range strings.SplitSeq(string(log), "\n") {
			if strings.Contains(line, `"kind":"key-bucket-delete"`) && strings.Contains(line, `"status":"success"`) {
				return nil
			}
		}
		if err := fixture.Wait(ctx, interval); err != nil {
			return err
		}
	}
	return fmt.Errorf("the bucket is not empty after %s", timeout)
}

// million measures the memory of a product with a very large bucket while clients use it, and how long the product
// takes to start after it was killed. The option most is the number of consumers; with 0, million measures nothing.
func million(ctx context.Context, m *measurement) error {
	count := m.Number("most")
	if count == 0 {
		return nil
	}
	c, err := startManager(ctx, m, "million", nil)
	if err != nil {
		return err
	}
	c.Stop()
	startedAt := time.Now()
	if err := fill.CreateBucket(ctx, c.Data(), c.Key, fill.Bucket{
		BucketsPath: buckets, Name: "million-bucket", Consumers: count,
		Consumer: consumerBody,
	}); err != nil {
		return fmt.Errorf("fill a bucket: %w", err)
	}
	m.Row(fmt.Sprintf("create %d consumers in process, without HTTP and without waiting for the disk", count), "",
		fmt.Sprint(time.Since(startedAt).Round(time.Second)), true)
	if c, err = startManager(ctx, m, "million", c.turns); err != nil {
		return err
	}
	if err := c.WaitIdle(ctx); err != nil { // the product processes the changes, and its engine compacts its tables
		return err
	}
	var maxMemory int64
	var restarts []time.Duration
	for range m.Number("kills") {
		if err := c.sendRequests(ctx, count); err != nil {
			return err
		}
		memory, err := c.Memory()
		if err != nil {
			return err
		}
		maxMemory = max(maxMemory, memory.Max)
		c.Kill()
		startedAt := time.Now()
		if c, err = startManager(ctx, m, "million", c.turns); err != nil {
			return err
		}
		restarts = append(restarts, time.Since(startedAt))
	}
	if err := c.WaitIdle(ctx); err != nil {
		return err
	}
	memory, err := c.Memory()
	if err != nil {
		return err
	}
	if err := c.do(ctx, http.MethodGet, fmt.Sprintf("%s/consumers/c%07d", bucketOf("million"), count-1), "", http.StatusOK,
		nil); err != nil {
		return err
	}
	median, longest := medianAndLongest(restarts)
	m.Row(fmt.Sprintf("memory with %d consumers, at most, while %d clients read, list and write", count, concurrency),
		megabytes(maxLargeMemory), megabytes(maxMemory), maxMemory < maxLargeMemory)
	m.Row("memory with them after a start, when idle", "",
		fmt.Sprintf("%s, %s of it mapped from files", megabytes(memory.Now), megabytes(memory.Now-memory.Anonymous)), true)
	m.Row(fmt.Sprintf("start with them after `kill -9`, median of %d", len(restarts)), fmt.Sprint(maxRestart),
		fmt.Sprintf("%s, the longest %s", millis(median), millis(longest)), median < maxRestart)
	return nil
}

// sendRequests runs clients for three seconds. Each reads consumers from all over the bucket, lists pages, and creates
// and deletes other consumers.
func (m *manager) sendRequests(ctx context.Context, count int) error {
	const duration = 3 * time.Second
	consumers := bucketOf("million") + "/consumers"
	startedAt := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for w := range concurrency {
		group.Go(func() error {
			for i := 0; time.Since(startedAt) < duration; i++ {
				name, extra := fmt.Sprintf("%s/c%07d", consumers, (w+1)*(i+1)*stride%count), fmt.Sprintf("extra-%d-%d", w, i)
				if err := errors.Join(
					m.do(ctx, http.MethodGet, name, "", http.StatusOK, nil),
					m.do(ctx, http.MethodGet, consumers+"?limit=100", "", http.StatusOK, nil),
					m.do(ctx, http.MethodPost, consumers+"?with-api-key=true", `{"name":"`+extra+`"}`, http.StatusOK, nil),
					m.do(ctx, http.MethodDelete, consumers+"/"+extra, "", http.StatusNoContent, nil),
				); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
