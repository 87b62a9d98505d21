package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/connectproxy"
	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/base/gctuning"
	"github.com/gatewright/gatewright/shared/core/config"
)

// serverRun is one server with consumers. Each consumer has a key.
type serverRun struct {
	*fixture.ServerProcess

	m        *measurement
	upstream string
	site     *fixture.Site
	turns    *instance.KeyRotation // account keys
	keys     []string              // the keys of the consumers
	counter  atomic.Uint64         // the number of used keys and of the consumers that administer has created
	agent    *fixture.Agent

	fillTime    time.Duration // how long it took to create the consumers
	storedBytes int64         // bytes that the consumers take on disk
}

// forEach calls do for the numbers from 0 to n-1, with up to concurrency calls at a time. It stops after an error.
func forEach(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range concurrency {
		group.Go(func() error {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// newServerRun starts one server with a data folder and creates count consumers with a key each.
func newServerRun(ctx context.Context, m *measurement, folder string, count int) (*serverRun, error) {
	certificate, err := fixture.NewCertificate()
	if err != nil {
		return nil, err
	}
	sr := &serverRun{m: m, upstream: m.Serve().URL, keys: make([]string, count)}
	if sr.ServerProcess, err = m.RunServer(ctx, folder, certificate); err != nil {
		return nil, err
	}
	if sr.site, err = sr.Site(ctx, fixture.SlowProject(sr.upstream)); err != nil {
		return nil, err
	}
	if sr.turns, err = sr.NewKeyRotation(ctx); err != nil {
		return nil, err
	}
	engine := filepath.Join(sr.Data(), datadir.Engine)
	if err := sr.WaitIdle(ctx); err != nil {
		return nil, err
	}
	before, err := bytesBelow(engine)
	if err != nil {
		return nil, err
	}
	startedAt := time.Now()
	if err := forEach(ctx, count, func(ctx context.Context, i int) (err error) {
		sr.keys[i], err = sr.NewConsumer(ctx, sr.turns.Next(), fmt.Sprintf("consumer-%d", i))
		return err
	}); err != nil {
		return nil, err
	}
	sr.fillTime = time.Since(startedAt)
	if err := sr.WaitIdle(ctx); err != nil {
		return nil, err
	}
	after, err := bytesBelow(engine)
	sr.storedBytes = after - before
	return sr, err
}

// load returns a load of requests with TLS over a number of connections. key returns the key of each request.
func (r *serverRun) load(connections int, key func() string) load.Load {
	l := r.site.Load(http.MethodGet, "/wait/0", "")
	l.Address, l.TLS, l.Connections = r.Secure(), r.Certificate.TLS(r.site.Host), connections
	l.Change = load.Replace(l.Request, r.site.Key, key)
	return l
}

// next returns the key of the next consumer.
func (r *serverRun) next() string { return r.keys[r.counter.Add(1)%uint64(len(r.keys))] }

// figures returns the rate and the latencies of requests as a text.
func figures(r load.Result) string {
	return fmt.Sprintf("%.0f a second; p50 %.1f ms, p99 %.1f ms", r.Rate(), r.Percentile(50).Seconds()*1e3,
		r.Percentile(99).Seconds()*1e3)
}

// capacity measures how fast one server is with many consumers, and how much disk and memory it uses.
func capacity(ctx context.Context, m *measurement) error {
	const connections = 64
	count := m.Number("keys")
	sr, err := newServerRun(ctx, m, "capacity", count)
	if err != nil {
		return err
	}
	m.Row(fmt.Sprintf("one server: create %d consumers with a key, by %d clients", count, concurrency), "",
		fmt.Sprintf("%.0f a second", float64(count)/sr.fillTime.Seconds()), true)
	m.Row("the same: disk for each consumer, with its key, changes and audit records", "",
		fmt.Sprintf("%d bytes", sr.storedBytes/int64(count)), true)
	for _, w := range []struct {
		name string
		key  func() string
	}{
		{"the same key each time", func() string { return sr.site.Key }},
		{fmt.Sprintf("one of %d keys each time", count), sr.next},
	} {
		l := sr.load(connections, w.key)
		l.Duration = time.Duration(m.Number("seconds")) * time.Second
		result, err := l.Send(ctx)
		if err != nil {
			return err
		}
		m.Row(fmt.Sprintf("one server: requests with TLS, %d connections, clients and upstream on the same processors, %s",
			connections, w.name), "", figures(result), true)
	}
	if err := sr.WaitIdle(ctx); err != nil {
		return err
	}
	memory, err := sr.Memory()
	if err != nil {
		return err
	}
	m.Row("one server: memory afterwards", "", fmt.Sprintf("%s, %s of it mapped from files; at most %s",
		megabytes(memory.Now), megabytes(memory.Now-memory.Anonymous), megabytes(memory.Max)), true)
	binary, err := m.Build(ctx, fixture.Server)
	if err != nil {
		return err
	}
	file := filepath.Join(m.Dir, "one.backup")
	startedAt := time.Now()
	backup := exec.CommandContext(ctx, binary, "backup", file) //nolint:gosec // G204: built here
	backup.Env = append(os.Environ(), config.VarDataDir+"="+sr.Data())
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("back up: %w: %s", err, out)
	}
	elapsed := time.Since(startedAt)
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("read the size of the backup: %w", err)
	}
	m.Row("one server: a backup while it runs", "", fmt.Sprintf("%.1f s, %s", elapsed.Seconds(), megabytes(info.Size())),
		true)
	var all []time.Duration
	for range m.Number("restarts") {
		sr.Stop()
		startedAt := time.Now()
		if sr.ServerProcess, err = m.RunServer(ctx, "capacity", sr.Certificate); err != nil {
			return err
		}
		all = append(all, time.Since(startedAt))
	}
	median, longest := medianAndLongest(all)
	m.Row(fmt.Sprintf("one server: start with them, until all addresses respond, median of %d", len(all)), "",
		fmt.Sprintf("%s, the longest %s", millis(median), millis(longest)), true)
	return nil
}

// bytesBelow returns the total size of the files below a folder. It ignores files that are removed meanwhile.
func bytesBelow(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ignoreNotExist(err)
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return ignoreNotExist(err)
	})
	if err != nil {
		return 0, fmt.Errorf("read the size of %s: %w", dir, err)
	}
	return total, nil
}

// ignoreNotExist returns nil for an error about a missing file, and other errors unchanged.
func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// The work of an hour in a small installation: about three requests a second, a team that deploys and administers, and
// an agent that reconnects.
const (
	hourlyRequests    = 10_000 // over keep-alive connections, each with another key
	hourlyHandshakes  = 500    // connections for a single request
	hourlyConsumers   = 100    // created with a key, which is used once, and deleted; then a page of consumers is listed
	hourlyAudits      = 20     // pages of the audit log
	hourlyDeployments = 2
	hourlyReconnects  = 2
)

// The limits for the growth after a day.
const (
	// maxGrowth is the maximum of the value after the day, divided by the value before. The heap may grow by 2 MB in
	// addition, and the resident memory by gctuning.MinHeapGrowth.
	maxGrowth     = 1.1
	maxAdditional = 10 // goroutines or descriptors, for connections that are about to end
)

// state has the resources that a server uses at a moment. tables is the number of descriptors of the store's files,
// which descriptors does not contain: their number grows with the store, up to the engine's limit of 500.
type state struct {
	resident, heap, disk            float64 // MB
	goroutines, descriptors, tables float64
}

// state returns the current state of the server.
func (r *serverRun) state(ctx context.Context) (s state, err error) {
	memory, memoryErr := r.Memory()
	g, gaugesErr := fixture.Gauges(ctx, r.Admin, "go_memstats_next_gc_bytes", "go_gc_gogc_percent",
		"gatewright_store_bytes",
		"go_goroutines", "process_open_fds")
	tables, tablesErr := r.CountOpenFiles(".sst")
	const mb = 1 << 20
	// The next collection starts when the heap has grown by GOGC percent since the last one. Calculate the size after
	// the last collection from that.
	heap := g["go_memstats_next_gc_bytes"] / (1 + g["go_gc_gogc_percent"]/100)
	return state{
		resident: float64(memory.Now) / mb, heap: heap / mb, disk: g["gatewright_store_bytes"] / mb,
		goroutines: g["go_goroutines"], descriptors: g["process_open_fds"] - float64(tables), tables: float64(tables),
	}, errors.Join(memoryErr, gaugesErr, tablesErr)
}

// idleState returns the state of the idle server after a garbage collection, which Go forces within two minutes.
func (r *serverRun) idleState(ctx context.Context) (state, error) {
	r.Client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	if err := fixture.Wait(ctx, time.Duration(r.m.Number("collected-seconds"))*time.Second); err != nil {
		return state{}, err
	}
	return r.state(ctx)
}

// longRun makes one server do many hours of work (option hours) as fast as it can. It compares the resources of the
// idle server before and after this work. It also compares the resident memory and the latencies of requests in the
// first and the last hours.
func longRun(ctx context.Context, m *measurement) error {
	const warmUpHours = 3 // hours of work before the day, which fill the caches
	hours, count := max(m.Number("hours"), 1), m.Number("day-keys")
	sr, err := newServerRun(ctx, m, "day", count)
	if err != nil {
		return err
	}
	if err := sr.startAgent(ctx); err != nil {
		return err
	}
	for range warmUpHours {
		if _, err := sr.hour(ctx); err != nil {
			return err
		}
	}
	before, err := sr.idleState(ctx)
	if err != nil {
		return err
	}
	var medians, percentiles99, resident []float64
	startedAt := time.Now()
	for n := range hours {
		hour, err := sr.hour(ctx)
		if err != nil {
			return fmt.Errorf("hour %d: %w", n+1, err)
		}
		current, err := sr.state(ctx)
		if err != nil {
			return err
		}
		medians = append(medians, hour.Percentile(50).Seconds()*1e3)
		percentiles99 = append(percentiles99, hour.Percentile(99).Seconds()*1e3)
		resident = append(resident, current.resident)
		fmt.Fprintf(os.Stderr, "bench: hour %d: %s; resident %.0f MB, goroutines %.0f, "+
			"descriptors %.0f and %.0f of the store, which has %.0f MB\n",
			n+1, figures(hour), current.resident, current.goroutines, current.descriptors, current.tables, current.disk)
	}
	elapsed := time.Since(startedAt)
	after, err := sr.idleState(ctx)
	if err != nil {
		return err
	}
	m.Row(fmt.Sprintf("one server: %d hours of work, with %d keys", hours, count), "",
		fmt.Sprintf("in %s: %d requests, %d handshakes, %d consumers, %d deployments, %d reconnects of an agent",
			elapsed.Round(time.Second), hours*hourlyRequests, hours*hourlyHandshakes, hours*hourlyConsumers,
			hours*hourlyDeployments, hours*hourlyReconnects), true)
	compareStates(m, before, after)
	compareHours(m, "resident memory", "MB", resident, maxGrowth)
	compareHours(m, "p50 of the requests", "ms", medians, 1.25)
	compareHours(m, "p99 of the requests", "ms", percentiles99, 1.5)
	return nil
}

// startAgent starts the agent of a tunnel to the upstream. The agent connects to the relay through a proxy.
func (r *serverRun) startAgent(ctx context.Context) error {
	token, err := r.NewTunnel(ctx, r.Key, "demo", "office", r.upstream)
	if err != nil {
		return err
	}
	proxy := httptest.NewServer(connectproxy.Handler(func(string) string { return r.Secure() }))
	r.m.Cleanup(proxy.Close)
	environment := []string{"HTTPS_PROXY=" + proxy.URL, "https_proxy=" + proxy.URL, "NO_PROXY=", "no_proxy="}
	r.agent, err = r.m.Agent(ctx, token, environment, "--relay", "https://relay."+fixture.Domain, "--ca-file", r.ChainFile)
	if err != nil {
		return err
	}
	return r.agent.Start(ctx)
}

// compareStates adds rows with the resources that the idle server uses before and after the hours of work.
func compareStates(m *measurement, before, after state) {
	for _, row := range []struct {
		name, unit           string
		before, after, limit float64
	}{
		{"heap after a garbage collection, before and after them", " MB", before.heap, after.heap, before.heap*maxGrowth + 2},
		{
			"resident memory before and after them", " MB", before.resident, after.resident,
			before.resident*maxGrowth + gctuning.MinHeapGrowth>>20,
		},
		{"descriptors", "", before.descriptors, after.descriptors, before.descriptors + maxAdditional},
		{"goroutines", "", before.goroutines, after.goroutines, before.goroutines + maxAdditional},
	} {
		m.Row("the same: "+row.name, fmt.Sprintf("%.0f%s", row.limit, row.unit),
			fmt.Sprintf("%.0f and %.0f%s", row.before, row.after, row.unit), row.after <= row.limit)
	}
	m.Row("the same: the store on disk", "", fmt.Sprintf("%.0f and %.0f MB, of which %.0f and %.0f files are open",
		before.disk, after.disk, before.tables, after.tables), true)
}

// compareHours adds a row that compares the medians of the first and of the last hours.
func compareHours(m *measurement, name, unit string, hourly []float64, limit float64) {
	const comparedHours = 3 // how many of the first and the last hours are compared
	n := min(comparedHours, len(hourly))
	first, last := load.Median(slices.Clone(hourly[:n])), load.Median(slices.Clone(hourly[len(hourly)-n:]))
	m.Row("the same: "+name+" in its first and last hours", fmt.Sprintf("%.2f times", limit),
		fmt.Sprintf("%.1f and %.1f %s, %.2f times", first, last, unit, last/first), last <= first*limit)
}

// hour does the work of an hour as fast as possible, and returns the latencies of the requests.
func (r *serverRun) hour(ctx context.Context) (hour load.Result, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		l := r.load(drainClients, r.next)
		l.Requests = hourlyRequests
		hour, err = l.Send(ctx)
		return err
	})
	group.Go(func() error {
		for range hourlyHandshakes {
			if _, err := r.load(1, r.next).Once(ctx); err != nil {
				return fmt.Errorf("a handshake: %w", err)
			}
		}
		return nil
	})
	group.Go(func() error { return r.administer(ctx) })
	group.Go(func() error {
		for range hourlyDeployments {
			if _, err := r.Upload(ctx, fixture.SlowProject(r.upstream)); err != nil {
				return err
			}
		}
		return nil
	})
	group.Go(func() error {
		for range hourlyReconnects {
			r.agent.Stop()
			if err := r.agent.Start(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return hour, group.Wait()
}

// administer creates consumers, uses the key of each once, deletes the consumers, and reads lists.
func (r *serverRun) administer(ctx context.Context) error {
	send := func(accountKey, method, path string) error {
		status, raw, err := r.Request(ctx, accountKey, method, path, "")
		if err == nil && status/100 != 2 {
			err = fmt.Errorf("%s %s: status %d, want 2xx: %s", method, path, status, raw)
		}
		return err
	}
	for range hourlyConsumers {
		name := fmt.Sprintf("of-the-day-%d", r.counter.Add(1))
		key, err := r.NewConsumer(ctx, r.turns.Next(), name)
		if err != nil {
			return err
		}
		if _, err := r.load(1, func() string { return key }).Once(ctx); err != nil {
			return fmt.Errorf("use a new key: %w", err)
		}
		if err := errors.Join(send(r.turns.Next(), http.MethodDelete, fixture.Consumers+"/"+name),
			send(r.turns.Next(), http.MethodGet, fixture.Consumers+"?limit=100")); err != nil {
			return err
		}
	}
	for range hourlyAudits {
		if err := send(r.Key, http.MethodGet, "/v1/accounts/demo/audit-logs?limit=100"); err != nil {
			return err
		}
	}
	return nil
}
