package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/system/instance"
	sharedtunnel "github.com/gatewright/gatewright/shared/format/tunnel"
)

// The limits of the figures about tunnels.
const (
	// minThroughput is the minimum throughput of a tunnel, as a fraction of the throughput of two proxies.
	// targetThroughput is the original goal; docs/decisions/0042-what-a-tunnel-costs.md says why the two differ.
	minThroughput, targetThroughput = 0.4, 0.8
	// maxBodyMemory is the maximum memory in bytes that the product uses for large bodies that wait, and the maximum
	// memory of the agent meanwhile.
	maxBodyMemory  = 100 << 20
	maxAgentMemory = 40 << 10 // bytes of memory that the product uses for an idle agent
)

func tunnels() []scenario {
	return []scenario{{
		title: "A request through a tunnel",
		text: "The product and `gatewright tunnel connect`, as their users start them, compared with two bare reverse " +
			"proxies in a row: same service, same client,\n" +
			"same run. Then the memory for large bodies that the receiver does not read, in both directions, and for " +
			"idle agents.",
		options: "rounds=7 requests=10000 large=100 agents=10000",
		run: func(ctx context.Context, m *measurement) error {
			if err := traffic(ctx, m); err != nil {
				return err
			}
			m.Close()
			return agents(ctx, m)
		},
	}}
}

// traffic measures the memory and the throughput of one tunnel in use. It measures the memory first, because memory use
// stays higher after the measurement of the throughput.
func traffic(ctx context.Context, m *measurement) error {
	service := m.Serve()
	product, err := m.Run(ctx, "traffic")
	if err != nil {
		return err
	}
	if err := product.NewProject(ctx); err != nil {
		return err
	}
	token, err := product.NewTunnel(ctx, product.Key, "demo", "bench", service.URL)
	if err != nil {
		return err
	}
	agent, err := m.Agent(ctx, token, nil, "--relay", product.Relay)
	if err != nil {
		return err
	}
	if err := agent.Start(ctx); err != nil {
		return err
	}
	route := fixture.Route{
		Method: "get", Path: "/{what}", Handler: "urlForwardHandler",
		Options: fixture.Options{"baseUrl": "service://" + fixture.Service},
	}
	post := route
	post.Method = "post"
	site, err := product.Upload(ctx, fixture.Project{Routes: []fixture.Route{route, post}})
	if err != nil {
		return err
	}
	if err := bodies(ctx, m, product, agent, service, site); err != nil {
		return err
	}
	return throughput(ctx, m, service, site)
}

// bodies measures the memory while large bodies wait at a slow receiver, in both directions, so that all buffers on the
// way are full.
func bodies(
	ctx context.Context, m *measurement, product *fixture.Product, agent *fixture.Agent, service *fixture.Upstream,
	site *fixture.Site,
) error {
	const concurrency = 64
	const settle = 3 * time.Second // until all buffers are full
	if err := product.WaitIdle(ctx); err != nil {
		return err
	}
	before, err := product.Memory()
	if err != nil {
		return err
	}
	service.Pending.Add(concurrency)
	upload := site.Load("POST", "/late", strings.Repeat("x", fixture.Large))
	upload.Connections, upload.Requests = concurrency, concurrency
	sending, sendCtx := errgroup.WithContext(ctx)
	sending.Go(func() error {
		_, err := upload.Send(sendCtx)
		return err
	})
	started := make(chan struct{})
	go func() {
		service.Pending.Wait()
		close(started)
	}()
	select {
	case <-started:
		err = fixture.Wait(ctx, settle)
	case <-sendCtx.Done():
		err = context.Cause(sendCtx)
	}
	service.Release()
	if err := errors.Join(err, sending.Wait()); err != nil {
		return fmt.Errorf("send large bodies: %w", err)
	}
	download := site.Load("GET", "/large", "")
	download.Connections, download.Requests, download.Length, download.ReadDelay = concurrency, concurrency, fixture.Large,
		settle
	if _, err := download.Send(ctx); err != nil {
		return fmt.Errorf("fetch large bodies: %w", err)
	}
	after, err := product.Memory()
	if err != nil {
		return err
	}
	during, err := instance.MemoryOf(agent.PID())
	if err != nil {
		return err
	}
	grown := after.Max - before.Now
	m.Row(fmt.Sprintf("%d requests and %d responses of 10 MB that wait: memory of the gateway and the relay, more "+
		"than when idle", concurrency, concurrency),
		megabytes(maxBodyMemory), megabytes(grown)+" more than "+megabytes(before.Now), grown < maxBodyMemory)
	m.Row("the same: memory of the agent", megabytes(maxBodyMemory), megabytes(during.Max), during.Max < maxBodyMemory)
	return nil
}

// throughput compares the throughput through the gateway, the relay and the agent with the throughput through two
// reverse proxies.
func throughput(ctx context.Context, m *measurement, service *fixture.Upstream, site *fixture.Site) error {
	second, err := m.Child(ctx, childCommand, roleReverse, service.Host())
	if err != nil {
		return err
	}
	first, err := m.Child(ctx, childCommand, roleReverse, second.Address)
	if err != nil {
		return err
	}
	large := strings.Repeat("x", fixture.Large)
	for _, test := range []struct {
		name, method, path, body string
		length                   int64
		connections              int
	}{
		{"requests without a body, responses of 1 KB, 16 at once", "GET", "/small", "", fixture.Small, 16},
		{"requests without a body, responses of 1 KB, 64 at once", "GET", "/small", "", fixture.Small, 64},
		{"responses of 10 MB, 8 at once", "GET", "/large", "", fixture.Large, 8},
		{"requests of 10 MB, 8 at once", "POST", "/take", large, fixture.Small, 8},
	} {
		l := site.Load(test.method, test.path, test.body)
		l.Length, l.Connections, l.Requests = test.length, test.connections, m.Number("requests")
		factor, unit := 1.0, "requests a second"
		if test.length == fixture.Large || test.body != "" {
			l.Requests, factor, unit = m.Number("large"), 10, "MB a second"
		}
		direct := l
		direct.Address = first.Address
		got, err := load.Compare(ctx, m.Number("rounds"), load.Subject{Name: "two proxies, " + test.name, Load: direct},
			load.Subject{Name: test.name, Load: l})
		if err != nil {
			return err
		}
		ratio := got[1].Ratio(got[0], load.Rate)
		m.Row(test.name, fmt.Sprintf("%.1f times two proxies in a row, %.1f wanted", minThroughput, targetThroughput),
			fmt.Sprintf("%.2f times: %.0f %s, and %.0f", ratio, factor*got[1].Median(load.Rate), unit,
				factor*got[0].Median(load.Rate)), ratio >= minThroughput)
	}
	return nil
}

// agents connects agents that stay idle, and measures how much memory the product uses for each.
func agents(ctx context.Context, m *measurement) error {
	const (
		connectionsPerAgent = 1 // connections to this relay: an agent has two connections, and an installation has two relays
		agentsPerTunnel     = 32
		settle              = 10 * time.Second
		otherFiles          = 1000 // files that a process has open in addition to the connections of agents
	)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("read the limit of open files: %w", err)
	}
	files.Cur = files.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return fmt.Errorf("raise the limit of open files to %d: %w", files.Cur, err)
	}
	count := min(m.Number("agents"), int(files.Max-otherFiles)/connectionsPerAgent) //nolint:gosec // G115: far below
	product, err := m.Run(ctx, "agents")
	if err != nil {
		return err
	}
	tokens, err := newTokens(ctx, m, product, (count+agentsPerTunnel-1)/agentsPerTunnel)
	if err != nil {
		return err
	}
	relay, err := url.Parse(product.Relay)
	if err != nil {
		return fmt.Errorf("read the relay's address: %w", err)
	}
	if err := product.WaitIdle(ctx); err != nil {
		return err
	}
	before, err := product.Memory()
	if err != nil {
		return err
	}
	agentCtx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	var connected atomic.Int64
	startedAt := time.Now()
	slots := make(chan struct{}, concurrency)
	for n := range count {
		slots <- struct{}{}
		done := sync.OnceFunc(func() { <-slots })
		token := tokens[n/agentsPerTunnel]
		wg.Go(func() {
			_ = sharedtunnel.NewAgent(sharedtunnel.AgentOptions{
				Relay: relay, Connections: connectionsPerAgent, Token: func() (string, error) {
					return token, nil
				}, Log: slog.New(slog.DiscardHandler),
				Notify: func(open int) {
					if open == connectionsPerAgent {
						connected.Add(1)
						done()
					}
				},
			}).Run(agentCtx, 0)
			done()
		})
	}
	if err := fixture.Until(ctx, "all agents", func() (bool, error) {
		return connected.Load() >= int64(count), nil
	}); err != nil {
		return fmt.Errorf("%d of %d agents are connected: %w", connected.Load(), count, err)
	}
	elapsed := time.Since(startedAt)
	if err := fixture.Wait(ctx, settle); err != nil {
		return err
	}
	after, err := product.Memory()
	if err != nil {
		return err
	}
	perAgentMemory := float64(after.Now-before.Now) / float64(count)
	m.Row(fmt.Sprintf("%d agents of %d tunnels, idle, each with a connection to this relay: memory of the product for one",
		count, len(tokens)),
		fmt.Sprintf("%d KB", maxAgentMemory>>10), fmt.Sprintf("%.1f KB", perAgentMemory/1024),
		perAgentMemory < maxAgentMemory)
	m.Row("the same: time to connect all", "", fmt.Sprintf("%v", elapsed.Round(100*time.Millisecond)), true)
	return nil
}

// concurrency is the number of clients that create objects at the same time.
const concurrency = 16

// newTokens creates tunnels and the accounts that they belong to. It returns the tokens of the tunnels.
func newTokens(ctx context.Context, m *measurement, product *fixture.Product, count int) ([]string, error) {
	const perAccount = 100
	binary, err := m.Build(ctx, fixture.LocalRun)
	if err != nil {
		return nil, err
	}
	all := make([]string, count)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrency)
	for first := 0; first < count; first += perAccount {
		account := fmt.Sprint("owner", first/perAccount)
		create := exec.CommandContext(ctx, binary, "account", "create", account) //nolint:gosec // G204: built here
		create.Env = append(os.Environ(), "GATEWRIGHT_DATA_DIR="+product.Data())
		out, err := create.Output()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("create the account %s: %w", account, err), group.Wait())
		}
		for n := first; n < min(first+perAccount, count); n++ {
			group.Go(func() (err error) {
				all[n], err = product.NewTunnel(ctx, strings.TrimSpace(string(out)), account, fmt.Sprint("tunnel-", n), "")
				return err
			})
		}
	}
	return all, group.Wait()
}
