package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/system/instance"
)

const (
	maxStart = 150 * time.Millisecond // from the start of a gateway process to its first response
	maxIdle  = 30                     // MB for idle HTTP/1.1 connections without TLS
)

func processScenarios() []scenario {
	return []scenario{
		{
			title: "The gateway as a process",
			text: "`gatewright gateway` as its users start it, with TLS, with emulators of DynamoDB and S3, and with a " +
				"management API. A request is lost if its\n" +
				"client gets no response, or a response that is not the upstream's. Nothing on the way retries a request, and " +
				"clients send bodies that cannot be sent again. One in fifty requests\n" +
				"takes 1.5 s, so that some are in flight when a process stops taking new ones. Processes announce their end for " +
				"two seconds (`GATEWRIGHT_ANNOUNCE`) unless the row says otherwise, and the balancer requests `/readyz` " +
				"four times\n" +
				"a second. With HTTP/2, each of eight clients has its own connection, and the reverse proxy has four to each " +
				"process. An idle client has sent one request to a process that had served 20,000 before. Memory is the resident " +
				"memory 8 s later.\n" +
				"\n" +
				"An idle HTTP/1.1 connection has no goroutine on Linux, and takes 1.2 KB of the heap. A TLS session takes " +
				"some 6 KB more.",
			options: "ends=20 default-ends=3 requests=10000 starts=25 idle=8000 warm=20000",
			run: func(ctx context.Context, m *measurement) error {
				inst, err := m.Install(ctx, "gateways")
				if err != nil {
					return err
				}
				if err := drains(ctx, m, inst); err != nil {
					return err
				}
				if err := gatewayStarts(ctx, m, inst); err != nil {
					return err
				}
				return idleClients(ctx, m, inst)
			},
		},
		{
			title: "One server",
			text: "`gatewright serve` as its users start it, with TLS and everything on: keys, a strict limit, access logs, " +
				"analytics and metrics. Clients and\n" +
				"the upstream run on the same processors as the server. The day is the work of a modest installation with 10,000 " +
				"consumers and their keys, sent as fast as the server\n" +
				"takes it. What the day leaves behind is measured on the idle server, 150 s after the last request. Timers use " +
				"the real clock, so they run only for the minutes\n" +
				"that the work takes.",
			options: "keys=100000 seconds=8 restarts=5 day-keys=10000 hours=24 collected-seconds=150",
			run: func(ctx context.Context, m *measurement) error {
				if err := capacity(ctx, m); err != nil {
					return err
				}
				m.Close()
				return longRun(ctx, m)
			},
		},
	}
}

// drains measures how many requests are lost when gateways shut down under load, with each protocol: first behind a
// balancer that forwards connections, where each gateway restarts at its own addresses, and then behind a reverse
// proxy, where other gateways replace the gateways. At the end, it measures restarts of gateways that announce their
// shutdown for the default time.
func drains(ctx context.Context, m *measurement, inst *fixture.Installation) error {
	for _, protocol := range []int{1, 2} {
		for _, replace := range []bool{false, true} {
			if err := drain(ctx, m, inst, protocol, replace, m.Number("ends"), m.Number("requests")); err != nil {
				return err
			}
		}
	}
	announcement := inst.Announcement
	defer func() { inst.Announcement = announcement }()
	inst.Announcement = 0
	for _, protocol := range []int{1, 2} {
		if err := drain(ctx, m, inst, protocol, false, m.Number("default-ends"), 0); err != nil {
			return err
		}
	}
	return nil
}

// gatewayStarts measures the time from the start of a gateway to its first response. The request has a key, a strict limit and an
// upstream, and the gateway reads the deployment's record from the table and its artifact from the bucket.
func gatewayStarts(ctx context.Context, m *measurement, inst *fixture.Installation) error {
	var responseTimes, listenTimes []time.Duration
	count := m.Number("starts")
	for n := range count + 1 {
		addresses, err := fixture.FreeAddresses(ctx)
		if err != nil {
			return err
		}
		g, err := inst.Start(addresses)
		if err != nil {
			return err
		}
		l := inst.Load("GET", "/wait/0", "")
		l.Address, l.TLS = addresses.Secure, inst.TLS(inst.Host)
		_, err = l.Once(ctx)
		elapsed := time.Since(g.StartedAt)
		if err := errors.Join(err, g.Stop()); err != nil {
			return err
		}
		if n > 0 { // the first start reads the binary from the disk and is not counted
			responseTimes, listenTimes = append(responseTimes, elapsed), append(listenTimes, g.ListeningAt.Sub(g.StartedAt))
		}
	}
	median, longest := medianAndLongest(responseTimes)
	m.Row(fmt.Sprintf("start of a gateway to its first response, with TLS, a key and a strict limit, median of %d", count),
		millis(maxStart),
		fmt.Sprintf("%s, the longest %s; it listens after %s", millis(median), millis(longest),
			millis(load.Median(listenTimes))), median <= maxStart)
	return nil
}

// idleClients measures how much more memory processes use with clients that have sent one request and then stay idle.
func idleClients(ctx context.Context, m *measurement, inst *fixture.Installation) error {
	for _, secure := range []bool{false, true} {
		addresses, err := fixture.FreeAddresses(ctx)
		if err != nil {
			return err
		}
		g, err := inst.Start(addresses)
		if err != nil {
			return err
		}
		name, limit, l := "a gateway process, plain HTTP", fmt.Sprintf("%d MB", maxIdle), inst.Load("GET", "/wait/0", "")
		l.Address = addresses.Plain
		if secure {
			name, limit, l.Address, l.TLS = "a gateway process, TLS", "", addresses.Secure, inst.TLS(inst.Host)
		}
		err = idle(ctx, m, name, limit, g.PID, addresses.Admin, l)
		if err := errors.Join(err, g.Stop()); err != nil {
			return err
		}
	}
	server, err := m.RunServer(ctx, "idle", inst.Certificate)
	if err != nil {
		return err
	}
	site, err := server.Site(ctx, fixture.SlowProject(m.Serve().URL))
	if err != nil {
		return err
	}
	if err := server.WaitIdle(ctx); err != nil {
		return err
	}
	l := site.Load("GET", "/wait/0", "")
	l.Address, l.TLS = server.Secure(), server.Certificate.TLS(site.Host)
	return idle(ctx, m, "one server, TLS", "", server.PID(), server.Admin, l)
}

// idle connects clients to a process, and adds a row with the additional memory that the process uses for them.
func idle(ctx context.Context, m *measurement, name, limit string, pid int, admin string, l load.Load) error {
	const settle = 8 * time.Second
	measure := func() (resident, stacks float64, err error) { // both in MB
		if err := fixture.Wait(ctx, settle); err != nil {
			return 0, 0, err
		}
		memory, err := instance.MemoryOf(pid)
		if err != nil {
			return 0, 0, err
		}
		const stackMetric = "go_memstats_stack_inuse_bytes"
		gauges, err := fixture.Gauges(ctx, admin, stackMetric)
		return float64(memory.Now) / (1 << 20), gauges[stackMetric] / (1 << 20), err
	}
	clients := fixture.NewClients(l)
	defer clients.Close()
	if err := clients.Add(ctx, 1); err != nil {
		return err
	}
	// Warm up first: a process that has served requests keeps memory for garbage (package gctuning), which does not
	// belong to the connections.
	if err := clients.Send(ctx, 0, m.Number("warm")); err != nil {
		return err
	}
	before, stacksBefore, err := measure()
	if err != nil {
		return err
	}
	count := m.Number("idle")
	if err := clients.Add(ctx, count); err != nil {
		return err
	}
	after, stacks, err := measure()
	if err != nil {
		return err
	}
	for _, client := range []int{1, count} {
		if err := clients.Send(ctx, client, 1); err != nil {
			return fmt.Errorf("send another request from client %d: %w", client, err)
		}
	}
	m.Row(fmt.Sprintf("%d idle connections: %s", count, name), limit,
		fmt.Sprintf("%.0f MB more than %.0f MB, %.1f KB each; stacks of goroutines are %.0f MB of it", after-before, before,
			(after-before)*1024/float64(count), stacks-stacksBefore), after-before <= maxIdle)
	return nil
}
