package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/system/instance"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// The limits of a request's cost.
const (
	maxRatio  = 1.25     // the CPU of the gateway, divided by that of the ReverseProxy
	maxQuota  = 1.1      // the CPU of a gateway with a quota, divided by that of a gateway with only a key check
	maxItems  = 1.0 / 20 // items that a quota writes for each request
	maxMemory = 150      // MB of a gateway with waiting connections
)

func requests() []scenario {
	return []scenario{
		{
			title: "A request through the gateway",
			text: "CPU per request with a matched route and a checked key, compared with a bare, tuned " +
				"`httputil.ReverseProxy`: same upstream, same client,\n" +
				"same run, each proxy in its own process. The limit is 1.25 times. The second table shows what a quota adds to " +
				"the key check (the limit is 1.1 times), and how many items\n" +
				"the quota writes to the table: leases, journals and returned leases.",
			options: "rounds=7 requests=20000 connections=16,64 idle=10000 stalled=1000",
			run:     throughGateway,
		},
		{
			title: "A request by TLS and HTTP/2",
			text: "The same gateway and ReverseProxy with TLS 1.3: 64 concurrent requests, over 64 connections with " +
				"HTTP/1.1 and over\n" +
				"four with HTTP/2, in alternating rounds. Both use the HTTP/2 of net/http, and both send HTTP/1.1 to the " +
				"upstream. The limit is 1.25 times.",
			options: "rounds=7 requests=20000",
			run:     byProtocol,
		},
		{
			title: "A request with everything on",
			text: "The product as its users start it: the route checks a key and a strict limit, and each request gets a line " +
				"in the access log, appears in the\n" +
				"terminal's summary and is counted for analytics. It is compared with a tuned `httputil.ReverseProxy` and nginx, " +
				"which do none of this, and with gateways that do a part\n" +
				"of it. All have the same upstream and the same client, in turns of one second. The table has the medians of the " +
				"rounds, and of their ratios. CPU is user\n" +
				"and system time of the process and its children. The scenario needs Debian's package `nginx-light`; `-set " +
				"nginx=no` leaves nginx out.\n" +
				"\n" +
				"The goal is 0.8 times the CPU of the ReverseProxy, with a p99 that is no worse. The product does not reach it. " +
				"Each row shows what a key, a limit, access lines or counts add\n" +
				"to the row before it. On a busy machine, this is accurate to some 5 %, and p99 says more about the other work " +
				"than about the programs. The last table is from a profile: it shows where a request\n" +
				"spends its time in a gateway with everything except the product's store and terminal. System calls take more " +
				"than a third of the time:\n" +
				"a proxy needs at least two writes and two reads.",
			options: "rounds=7 milliseconds=1000 connections=16,64 nginx=yes profiled=200000",
			run:     allFeatures,
		},
	}
}

// keyedLoad returns the load of these scenarios: GET requests with a key.
func keyedLoad(address string, connections, count int) load.Load {
	return load.Load{
		Address: address, Request: load.Request("GET", target, "bench.test", key, ""), Length: fixture.Small,
		Connections: connections, Requests: count,
	}
}

// children starts an upstream, and for each role a process in front of it. It returns the address of the upstream, and
// a subject for each role without a number of connections or requests.
func (m *measurement) children(ctx context.Context, roles ...string) (upstream string, all []load.Subject, err error) {
	upstreamChild, err := m.Child(ctx, childCommand, roleUpstream)
	if err != nil {
		return "", nil, err
	}
	for _, role := range roles {
		c, err := m.Child(ctx, childCommand, role, upstreamChild.Address)
		if err != nil {
			return "", nil, err
		}
		all = append(all, load.Subject{Name: role, Process: c, Load: keyedLoad(c.Address, 0, 0)})
	}
	return upstreamChild.Address, all, nil
}

// throughGateway compares the gateway with a ReverseProxy. It also compares gateways with and without a quota.
func throughGateway(ctx context.Context, m *measurement) error {
	connections, err := m.Numbers("connections")
	if err != nil {
		return err
	}
	_, all, err := m.children(ctx, roleReverse, roleGateway, roleQuota)
	if err != nil {
		return err
	}
	count, rounds := m.Number("requests"), m.Number("rounds")
	m.Printf("| connections | ReverseProxy, µs CPU | gateway, µs CPU | ratio |\n|---|---|---|---|\n")
	for _, n := range connections {
		for i := range all {
			all[i].Connections, all[i].Requests = n, count
		}
		got, err := load.Compare(ctx, rounds, all[:2]...)
		if err != nil {
			return err
		}
		ratio := got[1].Ratio(got[0], load.CPU)
		m.Printf("| %d | %.1f | %.1f | %.2f |\n", n, got[0].Median(load.CPU), got[1].Median(load.CPU), ratio)
		if ratio > maxRatio {
			m.Exceeds("the gateway costs %.2f times the ReverseProxy, the limit is %.2f", ratio, maxRatio)
		}
	}
	m.Printf("\n| connections | a key, µs CPU | a key and a quota, µs CPU | ratio | items written, a request " +
		"|\n|---|---|---|---|---|\n")
	for _, n := range connections {
		for i := range all {
			all[i].Connections = n
		}
		before, err := items(ctx, all[2].Address)
		if err != nil {
			return err
		}
		got, err := load.Compare(ctx, rounds, all[1:]...)
		if err != nil {
			return err
		}
		after, err := items(ctx, all[2].Address)
		if err != nil {
			return err
		}
		// load.Compare sends one round more, which it does not measure.
		ratio, perRequest := got[1].Ratio(got[0], load.CPU), float64(after-before)/float64(count*(rounds+1))
		m.Printf("| %d | %.1f | %.1f | %.2f | %.5f |\n", n, got[0].Median(load.CPU), got[1].Median(load.CPU), ratio,
			perRequest)
		if ratio > maxQuota {
			m.Exceeds("a quota costs %.2f times a key check alone, the limit is %.2f", ratio, maxQuota)
		}
		if perRequest >= maxItems {
			m.Exceeds("a quota writes %.3f items for each request, the limit is %.2f", perRequest, maxItems)
		}
	}
	return idleConnections(ctx, m, all[1])
}

// items returns how many items the gateway with a quota has written.
func items(ctx context.Context, address string) (int, error) {
	text, err := load.Load{Address: address, Request: load.Request("GET", itemsPath, "bench.test", "", "")}.Once(ctx)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// idleConnections opens connections that wait, some between requests and some in the middle of a body. It measures the
// gateway's memory, and the rate of requests on other connections.
func idleConnections(ctx context.Context, m *measurement, gateway load.Subject) error {
	idle, stalled := m.Number("idle"), m.Number("stalled")
	child, ok := gateway.Process.(*load.Child)
	if !ok {
		return fmt.Errorf("%s is not a child", gateway.Name)
	}
	before, err := instance.MemoryOf(int(child.PID))
	if err != nil {
		return err
	}
	clients := fixture.NewClients(gateway.Load)
	defer clients.Close()
	if err := clients.Add(ctx, idle); err != nil {
		return err
	}
	for range stalled {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", gateway.Address)
		if err != nil {
			return fmt.Errorf("connect: %w", err)
		}
		defer func() { _ = c.Close() }()
		head := strings.TrimSuffix(string(load.Request("POST", "/upload", "bench.test", key, "")), "\r\n")
		if _, err := io.WriteString(c, head+"Content-Length: 1000\r\n\r\nbegin"); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	const settle = 3 * time.Second
	if err := fixture.Wait(ctx, settle); err != nil {
		return err
	}
	during, err := instance.MemoryOf(int(child.PID))
	if err != nil {
		return err
	}
	result, err := keyedLoad(gateway.Address, 16, m.Number("requests")).Send(ctx)
	if err != nil {
		return fmt.Errorf("send requests while other connections wait: %w", err)
	}
	m.Printf("\nWith %d idle connections and %d stalled bodies, the gateway uses %s (%s without them), and serves %.0f "+
		"requests a second over 16 other connections.\n",
		idle, stalled, megabytes(during.Now), megabytes(before.Now), result.Rate())
	if during.Now > maxMemory<<20 {
		m.Exceeds("the gateway uses %s with %d connections, the limit is %d MB", megabytes(during.Now), idle+stalled,
			maxMemory)
	}
	return nil
}

// byProtocol compares the gateway with the ReverseProxy, both with TLS, and HTTP/1.1 with HTTP/2.
func byProtocol(ctx context.Context, m *measurement) error {
	_, proxies, err := m.children(ctx, roleReverseTLS, roleGatewayTLS)
	if err != nil {
		return err
	}
	_, config := localTLS()
	const concurrency, connections = 64, 4
	var all []load.Subject
	for _, protocol := range []int{1, 2} {
		for _, p := range proxies {
			p.TLS, p.Connections, p.Requests = config, concurrency, m.Number("requests")
			if protocol == 2 {
				transports := make([]http.RoundTripper, connections)
				for n := range transports {
					transports[n] = &http.Transport{TLSClientConfig: config.Clone(), ForceAttemptHTTP2: true, DisableCompression: true}
				}
				p.Protocol, p.Transport = 2, func(n int) http.RoundTripper { return transports[n%connections] }
			}
			all = append(all, p)
		}
	}
	got, err := load.Compare(ctx, m.Number("rounds"), all...)
	if err != nil {
		return err
	}
	m.Printf("| with TLS | connections | concurrent requests | ReverseProxy, µs CPU | gateway, µs CPU | ratio " +
		"|\n|---|---|---|---|---|---|\n")
	for i, name := range []string{"HTTP/1.1", "HTTP/2"} {
		reverse, gateway := got[2*i], got[2*i+1]
		ratio := gateway.Ratio(reverse, load.CPU)
		m.Printf("| %s | %d | %d | %.1f | %.1f | %.2f |\n", name, []int{concurrency, connections}[i], concurrency,
			reverse.Median(load.CPU), gateway.Median(load.CPU), ratio)
		if ratio > maxRatio {
			m.Exceeds("with %s the gateway costs %.2f times the ReverseProxy, the limit is %.2f", name, ratio, maxRatio)
		}
	}
	m.Printf("\nA request with HTTP/2 costs the ReverseProxy %.2f times as much as with HTTP/1.1, and the gateway "+
		"%.2f times.\n",
		got[2].Ratio(got[0], load.CPU), got[3].Ratio(got[1], load.CPU))
	return nil
}

// allFeatures compares the product, as its users start it, with a ReverseProxy, with nginx, and with gateways that do a part of its work.
func allFeatures(ctx context.Context, m *measurement) error {
	connections, err := m.Numbers("connections")
	if err != nil {
		return err
	}
	upstream, all, err := m.children(ctx, append([]string{roleReverse}, rungs()...)...)
	if err != nil {
		return err
	}
	all[0].Name, all[1].Name = "ReverseProxy, tuned", "the gateway: "+rungBare
	if m.Text("nginx") == "yes" {
		n, err := m.nginx(ctx, upstream)
		if err != nil {
			return err
		}
		all = slices.Insert(all, 1, n)
	}
	product, err := m.Run(ctx, "product")
	if err != nil {
		return err
	}
	site, err := product.Site(ctx, fixture.Project{
		Policies: []fixture.Policy{fixture.Key(), fixture.StrictLimit()},
		Routes: []fixture.Route{{
			Method: "get", Path: "/repos/{owner}/{repo}/issues/{number}", Handler: "urlForwardHandler",
			Options: fixture.Options{"baseUrl": "http://" + upstream},
			Inbound: []string{"key", "limit"}, Operation: fixture.Parameters("owner", "repo", "number"),
		}},
	})
	if err != nil {
		return err
	}
	all = append(all, load.Subject{
		Name: "the product, everything on", Process: product,
		Load: site.Load("GET", target, ""),
	})
	m.Printf("| connections | what | µs CPU | times ReverseProxy | p50, ms | p99, ms |\n|---|---|---|---|---|---|\n")
	for _, n := range connections {
		for i := range all {
			all[i].Connections, all[i].Requests, all[i].Duration = n, 0, time.Duration(m.Number("milliseconds"))*time.Millisecond
		}
		got, err := load.Compare(ctx, m.Number("rounds"), all...)
		if err != nil {
			return err
		}
		for i, s := range all {
			m.Printf("| %d | %s | %.1f | %.2f | %.2f | %.2f |\n", n, s.Name, got[i].Median(load.CPU),
				got[i].Ratio(got[0], load.CPU), got[i].Median(load.P50), got[i].Median(load.P99))
		}
	}
	return shares(ctx, m, upstream, m.Number("profiled"))
}

// nginx starts nginx as a proxy for the upstream, with a worker for each processor, keep-alive connections and no
// access log.
func (m *measurement) nginx(ctx context.Context, upstream string) (s load.Subject, err error) {
	binary, err := exec.LookPath("nginx")
	if err != nil {
		return s, fmt.Errorf("find nginx: %w: install it with `apt-get install nginx-light`, or leave it out with "+
			"-set nginx=no", err)
	}
	dir, err := m.Folder("nginx")
	if err != nil {
		return s, err
	}
	at, err := freeport.Find(ctx)
	if err != nil {
		return s, err
	}
	config := fmt.Sprintf(`daemon off; worker_processes auto; pid %[1]s/nginx.pid; error_log stderr crit;
events { worker_connections 1024; }
http {
	access_log off; keepalive_requests 100000000;
	client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
	uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	upstream up { server %[2]s; keepalive 256; keepalive_requests 100000000; }
	server { listen %[3]s; location / {
		proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;
	} }
}
`, dir, upstream, at)
	file := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return s, fmt.Errorf("configure nginx: %w", err)
	}
	cmd := exec.Command(binary, "-p", dir, "-e", "stderr", "-c", file) //nolint:gosec,noctx // fixture.Env ends the process
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return s, fmt.Errorf("start nginx: %w", err)
	}
	m.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	s = load.Subject{
		Name: "nginx, without a log", Process: load.Family(cmd.Process.Pid), Load: keyedLoad(at.String(), 1, 1),
	}
	return s, fixture.Until(ctx, "nginx", func() (bool, error) {
		_, err := s.Send(ctx)
		return err == nil, nil
	})
}
