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

	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/internal/connectproxy"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/garbage"
)

// house is one server with consumers. Each consumer has a key.
type house struct {
	*world.ServerProcess

	m        *measurement
	upstream string
	site     *world.Site
	turns    *instance.Turns // account keys
	keys     []string        // the keys of the consumers
	n        atomic.Uint64   // counts used keys and created consumers
	agent    *world.Agent

	took   time.Duration // how long it took to create the consumers
	stored int64         // bytes that the consumers take on disk
}

// each calls do for the numbers from 0 to n-1, with makers calls at a time.
func each(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range makers {
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

// settle starts one server with a data folder and creates count consumers with a key each.
func settle(ctx context.Context, m *measurement, folder string, count int) (*house, error) {
	certificate, err := world.NewCertificate()
	if err != nil {
		return nil, err
	}
	h := &house{m: m, upstream: m.Serve().URL, keys: make([]string, count)}
	if h.ServerProcess, err = m.RunServer(ctx, folder, certificate); err != nil {
		return nil, err
	}
	if h.site, err = h.Site(ctx, world.Waiting(h.upstream)); err != nil {
		return nil, err
	}
	if h.turns, err = h.Turns(ctx); err != nil {
		return nil, err
	}
	engine := filepath.Join(h.Data(), datadir.Engine)
	if err := h.Quiet(ctx); err != nil {
		return nil, err
	}
	before, err := bytesBelow(engine)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := each(ctx, count, func(ctx context.Context, i int) (err error) {
		h.keys[i], err = h.NewConsumer(ctx, h.turns.Next(), fmt.Sprintf("consumer-%d", i))
		return err
	}); err != nil {
		return nil, err
	}
	h.took = time.Since(began)
	if err := h.Quiet(ctx); err != nil {
		return nil, err
	}
	after, err := bytesBelow(engine)
	h.stored = after - before
	return h, err
}

// load returns requests with TLS. key returns the key of each request.
func (h *house) load(connections int, key func() string) load.Load {
	l := h.site.Load(http.MethodGet, "/wait/0", "")
	l.Address, l.TLS, l.Connections = h.Secure(), h.Certificate.TLS(h.site.Host), connections
	l.Change = load.Replace(l.Request, h.site.Key, key)
	return l
}

// next returns the key of the next consumer.
func (h *house) next() string { return h.keys[h.n.Add(1)%uint64(len(h.keys))] }

// figures returns the rate and the latencies of requests as a text.
func figures(r load.Result) string {
	return fmt.Sprintf("%.0f a second; p50 %.1f ms, p99 %.1f ms", r.Rate(), r.Percentile(50).Seconds()*1e3, r.Percentile(99).Seconds()*1e3)
}

// capacity measures how fast one server is with many consumers, and how much disk and memory it uses.
func capacity(ctx context.Context, m *measurement) error {
	const connections = 64
	count := m.Number("keys")
	h, err := settle(ctx, m, "capacity", count)
	if err != nil {
		return err
	}
	m.Row(fmt.Sprintf("one server: create %d consumers with a key, by %d clients", count, makers), "", fmt.Sprintf("%.0f a second", float64(count)/h.took.Seconds()), true)
	m.Row("the same: disk for each consumer, with its key, changes and audit records", "", fmt.Sprintf("%d bytes", h.stored/int64(count)), true)
	for _, w := range []struct {
		name string
		key  func() string
	}{
		{"the same key each time", func() string { return h.site.Key }},
		{fmt.Sprintf("one of %d keys each time", count), h.next},
	} {
		l := h.load(connections, w.key)
		l.For = time.Duration(m.Number("seconds")) * time.Second
		result, err := l.Send(ctx)
		if err != nil {
			return err
		}
		m.Row(fmt.Sprintf("one server: requests with TLS, %d connections, clients and upstream on the same processors, %s", connections, w.name), "", figures(result), true)
	}
	if err := h.Quiet(ctx); err != nil {
		return err
	}
	memory, err := h.Memory()
	if err != nil {
		return err
	}
	m.Row("one server: memory afterwards", "", fmt.Sprintf("%s, %s of it mapped from files; at most %s", megabytes(memory.Now), megabytes(memory.Now-memory.Own), megabytes(memory.Most)), true)
	binary, err := m.Build(ctx, world.Server)
	if err != nil {
		return err
	}
	file := filepath.Join(m.Dir, "one.backup")
	began := time.Now()
	backup := exec.CommandContext(ctx, binary, "backup", file) //nolint:gosec // G204: built here
	backup.Env = append(os.Environ(), config.VarDataDir+"="+h.Data())
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("back up: %w: %s", err, out)
	}
	took := time.Since(began)
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("look at the backup: %w", err)
	}
	m.Row("one server: a backup while it runs", "", fmt.Sprintf("%.1f s, %s", took.Seconds(), megabytes(info.Size())), true)
	var all []time.Duration
	for range m.Number("restarts") {
		h.Stop()
		began := time.Now()
		if h.ServerProcess, err = m.RunServer(ctx, "capacity", h.Certificate); err != nil {
			return err
		}
		all = append(all, time.Since(began))
	}
	median, longest := sorted(all)
	m.Row(fmt.Sprintf("one server: start with them, until all addresses respond, median of %d", len(all)), "", fmt.Sprintf("%s, the longest %s", millis(median), millis(longest)), true)
	return nil
}

// bytesBelow returns the size of all files in a folder and below it. Files may be removed meanwhile.
func bytesBelow(dir string) (total int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ifThere(err)
		}
		info, err := entry.Info()
		if err == nil {
			total += info.Size()
		}
		return ifThere(err)
	})
	if err != nil {
		return 0, fmt.Errorf("look at the size of %s: %w", dir, err)
	}
	return total, nil
}

func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// The work of an hour in a modest installation: some three requests a second, a team that deploys and administers, and an agent that
// reconnects.
const (
	hourlyRequests    = 10_000 // over keep-alive connections, each with another key
	hourlyHandshakes  = 500    // connections for a single request
	hourlyConsumers   = 100    // created with a key, which is used once, and deleted; then a page of consumers is listed
	hourlyAudits      = 20     // pages of the audit log
	hourlyDeployments = 2
	hourlyReconnects  = 2
)

// The limits for what a day leaves behind.
const (
	maxGrowth = 1.1 // times the value before; resident memory may also have the room for garbage (package garbage)
	maxMore   = 10  // more goroutines and descriptors, for connections that are about to end
)

// state is what a server uses at a moment. The descriptors of the store's files are counted separately, because they grow with the
// store, up to the engine's limit of 500.
type state struct {
	resident, heap, disk            float64 // MB
	goroutines, descriptors, tables float64
}

func (h *house) state(ctx context.Context) (s state, err error) {
	memory, memoryErr := h.Memory()
	g, gaugesErr := world.Gauges(ctx, h.Admin, "go_memstats_next_gc_bytes", "go_gc_gogc_percent", "gatewright_store_bytes", "go_goroutines", "process_open_fds")
	tables, tablesErr := h.Holds(".sst")
	const mb = 1 << 20
	// Go's next collection starts when the heap that the last one left has grown by GOGC percent.
	left := g["go_memstats_next_gc_bytes"] / (1 + g["go_gc_gogc_percent"]/100)
	return state{
		resident: float64(memory.Now) / mb, heap: left / mb, disk: g["gatewright_store_bytes"] / mb,
		goroutines: g["go_goroutines"], descriptors: g["process_open_fds"] - float64(tables), tables: float64(tables),
	}, errors.Join(memoryErr, gaugesErr, tablesErr)
}

// rest returns the state of the idle server after its garbage is collected, which Go does within two minutes.
func (h *house) rest(ctx context.Context) (state, error) {
	h.Client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	if err := world.Wait(ctx, time.Duration(h.m.Number("collected-seconds"))*time.Second); err != nil {
		return state{}, err
	}
	return h.state(ctx)
}

// day makes one server do 24 hours of work as fast as it can. It compares what the server uses before and after them, and how long
// requests took in the first and the last hours.
func day(ctx context.Context, m *measurement) error {
	const evening = 3  // hours of work before the day, which fill the caches
	const compared = 3 // how many of the first and the last hours are compared
	hours, count := max(m.Number("hours"), 1), m.Number("day-keys")
	h, err := settle(ctx, m, "day", count)
	if err != nil {
		return err
	}
	token, err := h.NewTunnel(ctx, h.Key, "demo", "office", h.upstream)
	if err != nil {
		return err
	}
	proxy := httptest.NewServer(connectproxy.Handler(func(string) string { return h.Secure() }))
	m.AtEnd(proxy.Close)
	h.agent, err = m.Agent(ctx, token, []string{"HTTPS_PROXY=" + proxy.URL, "https_proxy=" + proxy.URL, "NO_PROXY=", "no_proxy="},
		"--relay", "https://relay."+world.Domain, "--ca-file", h.Chain)
	if err != nil {
		return err
	}
	if err := h.agent.Start(ctx); err != nil {
		return err
	}
	for range evening {
		if _, err := h.hour(ctx); err != nil {
			return err
		}
	}
	before, err := h.rest(ctx)
	if err != nil {
		return err
	}
	var half, tail, resident []float64
	began := time.Now()
	for n := range hours {
		hour, err := h.hour(ctx)
		if err != nil {
			return fmt.Errorf("hour %d: %w", n+1, err)
		}
		now, err := h.state(ctx)
		if err != nil {
			return err
		}
		half, tail, resident = append(half, hour.Percentile(50).Seconds()*1e3), append(tail, hour.Percentile(99).Seconds()*1e3), append(resident, now.resident)
		fmt.Fprintf(os.Stderr, "bench: hour %d: %s; resident %.0f MB, goroutines %.0f, descriptors %.0f and %.0f of the store, which has %.0f MB\n",
			n+1, figures(hour), now.resident, now.goroutines, now.descriptors, now.tables, now.disk)
	}
	took := time.Since(began)
	after, err := h.rest(ctx)
	if err != nil {
		return err
	}
	m.Row(fmt.Sprintf("one server: %d hours of work, with %d keys", hours, count), "", fmt.Sprintf("in %s: %d requests, %d handshakes, %d consumers, %d deployments, %d reconnects of an agent",
		took.Round(time.Second), hours*hourlyRequests, hours*hourlyHandshakes, hours*hourlyConsumers, hours*hourlyDeployments, hours*hourlyReconnects), true)
	for _, row := range []struct {
		name, unit          string
		before, after, most float64
	}{
		{"heap after a garbage collection, before and after them", " MB", before.heap, after.heap, before.heap*maxGrowth + 2},
		{"resident memory before and after them", " MB", before.resident, after.resident, before.resident*maxGrowth + garbage.Room>>20},
		{"descriptors", "", before.descriptors, after.descriptors, before.descriptors + maxMore},
		{"goroutines", "", before.goroutines, after.goroutines, before.goroutines + maxMore},
	} {
		m.Row("the same: "+row.name, fmt.Sprintf("%.0f%s", row.most, row.unit), fmt.Sprintf("%.0f and %.0f%s", row.before, row.after, row.unit), row.after <= row.most)
	}
	m.Row("the same: the store on disk", "", fmt.Sprintf("%.0f and %.0f MB, of which %.0f and %.0f files are open", before.disk, after.disk, before.tables, after.tables), true)
	for _, row := range []struct {
		name, unit string
		all        []float64
		most       float64
	}{
		{"resident memory in its first and last hours", "MB", resident, maxGrowth},
		{"p50 of the requests in its first and last hours", "ms", half, 1.25},
		{"p99 of the requests in its first and last hours", "ms", tail, 1.5},
	} {
		ends := min(compared, len(row.all))
		first, last := load.Median(slices.Clone(row.all[:ends])), load.Median(slices.Clone(row.all[len(row.all)-ends:]))
		m.Row("the same: "+row.name, fmt.Sprintf("%.2f times", row.most), fmt.Sprintf("%.1f and %.1f %s, %.2f times", first, last, row.unit, last/first), last <= first*row.most)
	}
	return nil
}

// hour does the work of an hour as fast as possible, and returns the latencies of the requests.
func (h *house) hour(ctx context.Context) (hour load.Result, err error) {
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		l := h.load(clients, h.next)
		l.Requests = hourlyRequests
		hour, err = l.Send(ctx)
		return err
	})
	work.Go(func() error {
		for range hourlyHandshakes {
			if _, err := h.load(1, h.next).Once(ctx); err != nil {
				return fmt.Errorf("a handshake: %w", err)
			}
		}
		return nil
	})
	work.Go(func() error { return h.administer(ctx) })
	work.Go(func() error {
		for range hourlyDeployments {
			if _, err := h.Upload(ctx, world.Waiting(h.upstream)); err != nil {
				return err
			}
		}
		return nil
	})
	work.Go(func() error {
		for range hourlyReconnects {
			h.agent.Stop()
			if err := h.agent.Start(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return hour, work.Wait()
}

// administer creates consumers, uses their keys and deletes them, and reads lists.
func (h *house) administer(ctx context.Context) error {
	manage := func(by, method, path string) error {
		status, raw, err := h.Ask(ctx, by, method, path, "")
		if err == nil && status/100 != 2 {
			err = fmt.Errorf("%s %s: status %d: %s", method, path, status, raw)
		}
		return err
	}
	for range hourlyConsumers {
		name := fmt.Sprintf("of-the-day-%d", h.n.Add(1))
		key, err := h.NewConsumer(ctx, h.turns.Next(), name)
		if err != nil {
			return err
		}
		if _, err := h.load(1, func() string { return key }).Once(ctx); err != nil {
			return fmt.Errorf("use a new key: %w", err)
		}
		if err := errors.Join(manage(h.turns.Next(), http.MethodDelete, world.Consumers+"/"+name), manage(h.turns.Next(), http.MethodGet, world.Consumers+"?limit=100")); err != nil {
			return err
		}
	}
	for range hourlyAudits {
		if err := manage(h.Key, http.MethodGet, "/v1/accounts/demo/audit-logs?limit=100"); err != nil {
			return err
		}
	}
	return nil
}
