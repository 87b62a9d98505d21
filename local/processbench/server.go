package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
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
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/instance"
	"github.com/gatewright/gatewright/shared/config"
)

const (
	makers      = 16              // clients that create consumers at once
	connections = 64              // of clients of the gateway
	span        = 8 * time.Second // for which requests are counted
	restarts    = 5
)

// house is one server with consumers that each have a key.
type house struct {
	*server
	*site
	certificate

	dir, binary, client string
	by                  *instance.Turns // account keys
	keys                []string        // of consumers
}

// settled makes one server, and has its consumers made. made is told how fast, and what a consumer takes on disk in bytes.
func settled(ctx context.Context, dir string, o options, made func(second, bytes float64)) (_ *house, err error) {
	h := &house{dir: dir, binary: o.binary, client: o.agent}
	if h.certificate, err = certify(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	if h.server, err = serve(ctx, dir, o.binary, h.certificate); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.site, err = deploy(ctx, h.Instance); err != nil {
		return nil, err
	}
	if h.by, err = h.Turns(ctx); err != nil {
		return nil, err
	}
	if err := h.Quiet(ctx); err != nil {
		return nil, err
	}
	before, err := h.stored()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	h.keys = make([]string, o.keys)
	var next atomic.Int64
	var all errgroup.Group
	for range makers {
		all.Go(func() error {
			for n := next.Add(1) - 1; n < int64(o.keys); n = next.Add(1) - 1 {
				key, err := h.consumer(ctx, fmt.Sprintf("consumer-%d", n))
				if err != nil {
					return err
				}
				h.keys[n] = key
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	took := time.Since(began)
	if err := h.Quiet(ctx); err != nil {
		return nil, err
	}
	after, err := h.stored()
	if err != nil {
		return nil, err
	}
	made(float64(o.keys)/took.Seconds(), float64(after-before)/float64(o.keys))
	return h, nil
}

func (h *house) close() {
	if h.site != nil {
		h.upstream.Close()
	}
	h.Stop()
}

// consumer creates one, and gives its key.
func (h *house) consumer(ctx context.Context, name string) (string, error) {
	status, raw, err := h.Ask(ctx, h.by.Next(), http.MethodPost, consumers+"?with-api-key=true", fmt.Sprintf(`{"name":%q}`, name))
	if err != nil {
		return "", err
	}
	var made struct{ APIKeys []struct{ Key string } }
	if status != http.StatusCreated && status != http.StatusOK {
		return "", fmt.Errorf("create a consumer: answered %d %s", status, raw)
	}
	if err := json.Unmarshal(raw, &made); err != nil || len(made.APIKeys) == 0 {
		return "", fmt.Errorf("create a consumer: it has no key: %w", err)
	}
	return made.APIKeys[0].Key, nil
}

// stored is what the table takes on disk.
func (h *house) stored() (n int64, err error) {
	err = filepath.WalkDir(filepath.Join(h.Data(), datadir.Engine), func(_ string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // compacted away meanwhile
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			n += info.Size()
		}
		return err
	})
	return n, err
}

// asked is what clients were answered.
type asked struct {
	requests int
	took     time.Duration
	p50, p99 time.Duration
}

func (a asked) String() string {
	return fmt.Sprintf("%.0f a second; half within %.1f ms, 99 in 100 within %.1f ms", float64(a.requests)/a.took.Seconds(), a.p50.Seconds()*1e3, a.p99.Seconds()*1e3)
}

// clients ask the deployment by TLS on connections that they keep, each with the next key, until more says no.
func (h *house) clients(ctx context.Context, n int, key func() string, more func() bool) (a asked, err error) {
	var mu sync.Mutex
	var all []time.Duration
	began := time.Now()
	work, ctx := errgroup.WithContext(ctx)
	for range n {
		work.Go(func() error {
			plain, err := new(net.Dialer).DialContext(ctx, "tcp", h.secure())
			if err != nil {
				return fmt.Errorf("connect: %w", err)
			}
			c := tls.Client(plain, h.tls(h.host))
			defer func() { _ = c.Close() }()
			r := bufio.NewReader(c)
			var own []time.Duration
			for more() && ctx.Err() == nil {
				sent := time.Now()
				if err := h.one(c, r, key()); err != nil {
					return err
				}
				own = append(own, time.Since(sent))
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, own...)
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return a, err
	}
	slices.Sort(all)
	return asked{requests: len(all), took: time.Since(began), p50: all[len(all)/2], p99: all[len(all)*99/100]}, nil
}

// one asks on a connection.
func (s *site) one(c io.Writer, r *bufio.Reader, key string) error {
	if _, err := io.WriteString(c, "GET /wait/0 HTTP/1.1\r\nHost: "+s.host+"\r\nAuthorization: Bearer "+key+"\r\n\r\n"); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("receive: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("receive: status %d: %.300s", response.StatusCode, text)
	}
	return nil
}

// until is a time as clients are told it.
func until(at time.Time) func() bool { return func() bool { return time.Now().Before(at) } }

// capacity measures what one server holds, and how fast it is with that.
func capacity(ctx context.Context, dir string, o options, table *bars.Table) error {
	h, err := settled(ctx, filepath.Join(dir, "server"), o, func(second, bytes float64) {
		table.Add(fmt.Sprintf("one server: consumers with a key created, to %d, by %d clients", o.keys, makers), "", fmt.Sprintf("%.0f a second", second), true)
		table.Add("the same: disk for each, its key, changes and audit records included", "", fmt.Sprintf("%.0f bytes", bytes), true)
	})
	if err != nil {
		return err
	}
	defer h.close()
	for _, w := range []struct {
		name string
		key  func() string
	}{
		{"the same key each time", func() string { return h.key }},
		{fmt.Sprintf("one of %d keys each time", o.keys), h.next()},
	} {
		a, err := h.clients(ctx, connections, w.key, until(time.Now().Add(span)))
		if err != nil {
			return err
		}
		table.Add(fmt.Sprintf("one server: requests by TLS, %d connections, clients and upstream on the same processors, %s", connections, w.name), "", a.String(), true)
	}
	if err := h.Quiet(ctx); err != nil {
		return err
	}
	m, err := h.Memory()
	if err != nil {
		return err
	}
	table.Add("one server: memory afterwards", "", fmt.Sprintf("%d MB, %d MB of them its program's; at most %d MB", m.Now>>20, (m.Now-m.Own)>>20, m.Most>>20), true)

	file := filepath.Join(dir, "one.backup")
	began := time.Now()
	backup := exec.CommandContext(ctx, h.binary, "backup", file) //nolint:gosec // whoever runs this chose it
	backup.Env = append(os.Environ(), config.VarDataDir+"="+h.Data())
	if out, err := backup.CombinedOutput(); err != nil {
		return fmt.Errorf("back up: %w: %s", err, out)
	}
	took := time.Since(began)
	info, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("look at the backup: %w", err)
	}
	table.Add("one server: a backup while it runs", "", fmt.Sprintf("%.1f s, %d MB", took.Seconds(), info.Size()>>20), true)

	var all []time.Duration
	for range restarts {
		h.Stop()
		began := time.Now()
		s, err := serve(ctx, h.dir, h.binary, h.certificate)
		if err != nil {
			return err
		}
		h.server = s
		all = append(all, time.Since(began))
	}
	worst := slices.Max(all)
	table.Add(fmt.Sprintf("one server: start with them, until all addresses answer, median of %d", restarts), "",
		fmt.Sprintf("%d ms, the longest %d ms", load.Median(all).Milliseconds(), worst.Milliseconds()), true)
	return nil
}

// turns gives one key after the other.
func (h *house) next() func() string {
	var next atomic.Uint64
	return func() string { return h.keys[next.Add(1)%uint64(len(h.keys))] }
}

// gauges are what a process answers its operators at an address, by its metrics' names, those with labels left out.
func gauges(ctx context.Context, admin string) (map[string]float64, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+admin+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	out, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("ask for metrics: %w", err)
	}
	defer func() { _ = out.Body.Close() }()
	all := map[string]float64{}
	for lines := bufio.NewScanner(out.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		var value float64
		if _, err := fmt.Sscan(text, &value); err == nil {
			all[name] = value
		}
	}
	return all, nil
}
