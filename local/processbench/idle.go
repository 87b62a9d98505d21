package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/local/instance"
)

// mostIdle is what clients that have nothing to ask may take, in MB.
const mostIdle = 30

// warm is how many requests a process has served before anybody idles.
const warm = 20_000

// rest is how long a process has until its memory is looked at.
const rest = 8 * time.Second

// crowds connects clients which ask once and then have nothing to ask, and looks at how much memory a process takes
// more.
func crowds(ctx context.Context, dir string, o options, table *bars.Table) error {
	in, err := newInstallation(ctx, filepath.Join(dir, "idle"), o)
	if err != nil {
		return err
	}
	defer in.stop()
	for _, secure := range []bool{false, true} {
		at, err := some(ctx)
		if err != nil {
			return err
		}
		p, err := in.start(at)
		if err != nil {
			return err
		}
		name, bar, address, c := "a gateway process, plain HTTP", fmt.Sprintf("%d MB", mostIdle), at.plain, (*tls.Config)(nil)
		if secure {
			name, bar, address, c = "a gateway process, TLS", "", at.secure, in.tls(in.host)
		}
		grown, err := crowd(ctx, p.cmd.Process.Pid, p.admin, address, c, in.site, o.idle)
		if stopped := p.stop(); err == nil {
			err = stopped
		}
		if err != nil {
			return err
		}
		add(table, o.idle, name, bar, grown)
	}

	folder := filepath.Join(dir, "idle-server")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	s, err := serve(ctx, folder, o.binary, in.certificate)
	if err != nil {
		return err
	}
	defer s.Stop()
	its, err := deploy(ctx, s.Instance)
	if err != nil {
		return err
	}
	defer its.upstream.Close()
	if err := s.Quiet(ctx); err != nil {
		return err
	}
	grown, err := crowd(ctx, s.PID(), s.admin, s.secure(), in.tls(its.host), its, o.idle)
	if err != nil {
		return err
	}
	add(table, o.idle, "one server, TLS", "", grown)
	return nil
}

// growth is what a process holds before and with its clients, in MB.
type growth struct{ before, resident, stacks float64 }

func add(table *bars.Table, n int, name, bar string, g growth) {
	table.Add(fmt.Sprintf("%d idle connections: %s", n, name), bar,
		fmt.Sprintf("%.0f MB more than %.0f MB, %.1f KB each; stacks of goroutines are %.0f MB of it", g.resident, g.before, g.resident*1024/float64(n), g.stacks), g.resident <= mostIdle)
}

// crowd opens connections to a process, each with one request, and gives how much more it holds with them.
func crowd(ctx context.Context, pid int, admin, address string, secure *tls.Config, s *site, n int) (grown growth, err error) {
	all := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range all {
			_ = c.Close()
		}
	}()
	open := func() error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		if secure != nil {
			c = tls.Client(c, secure)
		}
		all = append(all, c)
		return s.once(c)
	}
	if err := open(); err != nil {
		return grown, err
	}
	// A process that has served for a while has the room for garbage that it takes (package garbage): connections are not to pay
	// for that.
	r := bufio.NewReader(all[0])
	for range warm {
		if err := s.one(all[0], r, s.key); err != nil {
			return grown, err
		}
	}
	time.Sleep(rest)
	before, err := held(ctx, pid, admin)
	if err != nil {
		return grown, err
	}
	for len(all) < n+1 {
		if err := open(); err != nil {
			return grown, fmt.Errorf("client %d: %w", len(all), err)
		}
	}
	time.Sleep(rest)
	after, err := held(ctx, pid, admin)
	if err != nil {
		return grown, err
	}
	for _, c := range []net.Conn{all[1], all[n]} { // they are there
		if err := s.once(c); err != nil {
			return grown, fmt.Errorf("ask again: %w", err)
		}
	}
	return growth{before.resident, after.resident - before.resident, after.stacks - before.stacks}, nil
}

// held is what a process holds now.
func held(ctx context.Context, pid int, admin string) (g growth, err error) {
	m, err := instance.MemoryOf(pid)
	if err != nil {
		return g, err
	}
	all, err := gauges(ctx, admin)
	const mb = 1 << 20
	return growth{resident: float64(m.Now) / mb, stacks: all["go_memstats_stack_inuse_bytes"] / mb}, err
}

// once asks on a connection.
func (s *site) once(c net.Conn) error { return s.one(c, bufio.NewReader(c), s.key) }
