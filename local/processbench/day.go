package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/load"
	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/garbage"
)

// What an hour of a modest installation brings: some three requests a second, a team that deploys and administers, and
// an agent whose network is not the best.
const (
	hourlyRequests    = 10_000 // on connections that are kept, each with another key
	hourlyHandshakes  = 500    // connections for one request
	hourlyConsumers   = 100    // created with a key that is used once, and deleted; each time some are listed
	hourlyAudits      = 20     // pages of the audit log
	hourlyDeployments = 2
	hourlyReconnects  = 2
	dayClients        = 8
)

const (
	// evening is how many hours come before the day, so that what is kept in memory is there.
	evening = 3
	// collected is how long a process is left alone before its memory is looked at: Go collects garbage after two minutes at the
	// latest, and gives pages back.
	collected = 150 * time.Second
	// compared is how many hours of the day's beginning are compared with as many of its end.
	compared = 3
	// mostGrowth is how much more the end may have than the beginning, times: of what scatters. What is resident may have the
	// room for garbage more (package garbage), which is in use or not when it is looked at.
	mostGrowth = 1.1
	// mostMore is how many goroutines and descriptors more: connections that are about to end.
	mostMore = 10
)

// state is what a server holds at a moment.
type state struct {
	resident, heap, disk float64 // MB
	// tables are the descriptors of the store's files, which grow with it up to the engine's bound
	// of 500; descriptors are the others.
	goroutines, descriptors, tables float64
}

func (h *house) state(ctx context.Context) (s state, err error) {
	m, err := h.Memory()
	if err != nil {
		return s, err
	}
	g, err := gauges(ctx, h.admin)
	if err != nil {
		return s, err
	}
	tables, err := h.Holds(".sst")
	if err != nil {
		return s, err
	}
	return state{
		resident: float64(m.Now) / (1 << 20), heap: left(g) / (1 << 20),
		goroutines: g["go_goroutines"], descriptors: g["process_open_fds"] - float64(tables), tables: float64(tables), disk: g["gatewright_store_bytes"] / (1 << 20),
	}, nil
}

// left is what the last collection of garbage left: Go collects again when that has grown by GOGC percent.
func left(g map[string]float64) float64 {
	return g["go_memstats_next_gc_bytes"] / (1 + g["go_gc_gogc_percent"]/100)
}

// day pushes 24 hours of work through one server, as fast as it takes them, and compares what it holds before and after
// them, each time with nothing to do and garbage collected, and how long requests took in their first and last hours.
func day(ctx context.Context, dir string, o options, table *bars.Table) error {
	if o.hours < 1 {
		return errors.New("-hours is less than 1: a day has one at least")
	}
	o.keys = o.dayKeys
	h, err := settled(ctx, filepath.Join(dir, "day"), o, func(float64, float64) {})
	if err != nil {
		return err
	}
	defer h.close()
	a, err := h.tunnel(ctx)
	if err != nil {
		return err
	}
	defer a.proxy.Close()
	defer a.stop()
	d := &worked{house: h, agent: a, key: h.next()}
	for range evening {
		if _, err := d.hour(ctx); err != nil {
			return err
		}
	}
	before, err := d.alone(ctx)
	if err != nil {
		return err
	}
	var half, tail, resident []float64
	began := time.Now()
	for n := range o.hours {
		hour, err := d.hour(ctx)
		if err != nil {
			return fmt.Errorf("hour %d: %w", n+1, err)
		}
		half, tail = append(half, hour.p50.Seconds()*1e3), append(tail, hour.p99.Seconds()*1e3)
		now, err := h.state(ctx)
		if err != nil {
			return err
		}
		resident = append(resident, now.resident)
		fmt.Fprintf(os.Stderr, "processbench: hour %d: %s; resident %.0f MB, goroutines %.0f, descriptors %.0f and %.0f of the store, which has %.0f MB\n",
			n+1, hour, now.resident, now.goroutines, now.descriptors, now.tables, now.disk)
	}
	took := time.Since(began)
	after, err := d.alone(ctx)
	if err != nil {
		return err
	}
	table.Add(fmt.Sprintf("one server: %d hours of work, with %d keys", o.hours, o.keys), "", fmt.Sprintf("in %s: %d requests, %d handshakes, %d consumers, %d deployments, %d agents that connect again",
		took.Round(time.Second), o.hours*hourlyRequests, o.hours*hourlyHandshakes, o.hours*hourlyConsumers, o.hours*hourlyDeployments, o.hours*hourlyReconnects), true)
	for _, row := range []struct {
		name, unit    string
		before, after float64
		most          float64
	}{
		{"what a collection of garbage leaves, before and after them", "MB", before.heap, after.heap, before.heap*mostGrowth + 2},
		{"resident memory before and after them", "MB", before.resident, after.resident, before.resident*mostGrowth + garbage.Room>>20},
		{"descriptors", "", before.descriptors, after.descriptors, before.descriptors + mostMore},
		{"goroutines", "", before.goroutines, after.goroutines, before.goroutines + mostMore},
	} {
		table.Add("the same: "+row.name, fmt.Sprintf("%.0f %s", row.most, row.unit), fmt.Sprintf("%.0f and %.0f %s", row.before, row.after, row.unit), row.after <= row.most)
	}
	table.Add("the same: the store on disk", "", fmt.Sprintf("%.0f and %.0f MB, of which %.0f and %.0f files are open", before.disk, after.disk, before.tables, after.tables), true)
	ends := min(compared, len(half))
	for _, row := range []struct {
		name, unit string
		all        []float64
		most       float64
	}{
		{"resident memory in its first and last hours", "MB", resident, mostGrowth},
		{"half of the requests within, in its first and last hours", "ms", half, 1.25},
		{"99 in 100 within", "ms", tail, 1.5},
	} {
		first, last := load.Median(slices.Clone(row.all[:ends])), load.Median(slices.Clone(row.all[len(row.all)-ends:]))
		table.Add("the same: "+row.name, fmt.Sprintf("%.2f times", row.most), fmt.Sprintf("%.1f and %.1f %s, %.2f times", first, last, row.unit, last/first), last <= first*row.most)
	}
	return nil
}

// worked is a server whose hours are worked through.
type worked struct {
	*house

	agent *agent
	key   func() string
	n     atomic.Int64 // counts consumers and deployments
}

// alone leaves the server alone until its garbage is collected, and gives what it holds then.
func (d *worked) alone(ctx context.Context) (state, error) {
	d.Client.CloseIdleConnections()
	http.DefaultClient.CloseIdleConnections()
	select {
	case <-ctx.Done():
		return state{}, ctx.Err()
	case <-time.After(collected):
	}
	return d.state(ctx)
}

// hour has all of an hour done at once, and gives how long requests took meanwhile.
func (d *worked) hour(ctx context.Context) (hour asked, err error) {
	var left atomic.Int64
	left.Store(hourlyRequests)
	work, ctx := errgroup.WithContext(ctx)
	work.Go(func() (err error) {
		hour, err = d.clients(ctx, dayClients, d.key, func() bool { return left.Add(-1) >= 0 })
		return err
	})
	work.Go(func() error {
		for range hourlyHandshakes {
			if err := d.visit(ctx, d.key()); err != nil {
				return fmt.Errorf("a handshake: %w", err)
			}
		}
		return nil
	})
	work.Go(func() error { return d.administer(ctx) })
	work.Go(func() error {
		for range hourlyDeployments {
			b, err := d.Deploy(ctx, "demo", "bench", instance.Archive(files(d.upstream.URL)))
			if err != nil {
				return err
			}
			if b.Status != "SUCCESS" {
				return fmt.Errorf("the project is not built: %s %s", b.Status, b.BuildResult)
			}
		}
		return nil
	})
	work.Go(func() error {
		for range hourlyReconnects {
			d.agent.stop()
			if err := d.agent.connect(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	return hour, work.Wait()
}

// administer creates consumers, uses their keys and deletes them, and reads lists.
func (d *worked) administer(ctx context.Context) error {
	for range hourlyConsumers {
		name := fmt.Sprintf("of-the-day-%d", d.n.Add(1))
		key, err := d.consumer(ctx, name)
		if err != nil {
			return err
		}
		if err := d.visit(ctx, key); err != nil {
			return fmt.Errorf("ask with a new key: %w", err)
		}
		if err := d.manage(ctx, d.by.Next(), http.MethodDelete, consumers+"/"+name); err != nil {
			return err
		}
		if err := d.manage(ctx, d.by.Next(), http.MethodGet, consumers+"?limit=100"); err != nil {
			return err
		}
	}
	for range hourlyAudits {
		if err := d.manage(ctx, d.Key, http.MethodGet, "/v1/accounts/demo/audit-logs?limit=100"); err != nil {
			return err
		}
	}
	return nil
}

// visit asks once, on a connection of its own.
func (d *worked) visit(ctx context.Context, key string) error {
	var left atomic.Int64
	left.Store(1)
	_, err := d.clients(ctx, 1, func() string { return key }, func() bool { return left.Add(-1) >= 0 })
	return err
}

// manage makes a request to the management API that has to succeed.
func (d *worked) manage(ctx context.Context, by, method, path string) error {
	status, raw, err := d.Ask(ctx, by, method, path, "")
	if err == nil && status/100 != 2 {
		err = fmt.Errorf("%s %s: answered %d %s", method, path, status, raw)
	}
	return err
}

// agent is a process of `gatewright tunnel connect`.
type agent struct {
	h     *house
	token string // its file
	proxy *httptest.Server
	cmd   *exec.Cmd
}

// tunnel makes a tunnel with a service for the project, and connects an agent of it.
func (h *house) tunnel(ctx context.Context) (*agent, error) {
	var made struct{ TunnelID, Token string }
	if err := h.Into(ctx, &made, http.MethodPost, "/v1/accounts/demo/tunnels", `{"name":"office"}`); err != nil {
		return nil, err
	}
	configuration, err := json.Marshal(map[string]any{"version": 1, "services": []any{map[string]any{
		"name": "stock", "endpoint": h.upstream.URL, "configurations": []any{map[string]any{"project": "bench", "accessibleBy": []string{"production"}}},
	}}})
	if err != nil {
		return nil, fmt.Errorf("encode a configuration: %w", err)
	}
	if err := h.Into(ctx, nil, http.MethodPut, "/v1/accounts/demo/tunnels/"+made.TunnelID+"/services-configuration", string(configuration)); err != nil {
		return nil, err
	}
	a := &agent{h: h, proxy: proxied(h.secure), token: filepath.Join(h.dir, "token")}
	if err := os.WriteFile(a.token, []byte(made.Token), 0o600); err != nil {
		return nil, fmt.Errorf("write a token: %w", err)
	}
	return a, a.connect(ctx)
}

// connect starts it, and waits until it is connected.
func (a *agent) connect(ctx context.Context) error {
	var out output
	a.cmd = exec.Command(a.h.client, "tunnel", "connect", "--relay", "https://relay."+domain, "--ca-file", filepath.Join(a.h.dir, chainFile), "--token-file", a.token) //nolint:gosec,noctx // stop ends it
	a.cmd.Env = append(os.Environ(), "HTTPS_PROXY="+a.proxy.URL, "https_proxy="+a.proxy.URL, "NO_PROXY=", "no_proxy=")
	a.cmd.Stdout, a.cmd.Stderr = &out, &out
	if err := a.cmd.Start(); err != nil {
		return fmt.Errorf("start an agent: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !strings.Contains(out.String(), "connected: 2 of 2") {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("the agent does not connect: %s", out.String()), ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func (a *agent) stop() {
	_ = a.cmd.Process.Signal(os.Interrupt)
	_ = a.cmd.Wait()
}

// output is what a process prints. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
