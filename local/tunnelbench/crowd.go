package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/local/instance"
	sharedtunnel "github.com/gatewright/gatewright/shared/tunnel"
)

const (
	mostAgent = 40 << 10 // bytes of a relay for an agent that is idle
	// perAgent is how many of an agent's connections lead to this relay: an agent has two, and an
	// installation two relays. With one relay it is twice as much.
	perAgent  = 1
	perTunnel = 32  // agents: as many as a relay takes
	perOwner  = 100 // tunnels of an account
	makers    = 16  // clients that make tunnels, and agents that connect, at once
	rest      = 10 * time.Second
)

// crowd connects agents that get nothing to do, and looks at what the product holds for each.
func crowd(ctx context.Context, dir string, o options, table *bars.Table) error {
	if err := descriptors(&o); err != nil {
		return err
	}
	i, err := started(ctx, filepath.Join(dir, "crowd"), o.binary)
	if err != nil {
		return err
	}
	defer i.Stop()
	tokens, err := tokens(ctx, i, o)
	if err != nil {
		return err
	}
	relay, err := url.Parse(i.Relay)
	if err != nil {
		return fmt.Errorf("read the relay's address: %w", err)
	}
	if err := i.Quiet(ctx); err != nil {
		return err
	}
	before, err := i.Memory()
	if err != nil {
		return err
	}

	ctx, stop := context.WithCancel(ctx)
	var agents sync.WaitGroup
	defer agents.Wait()
	defer stop()
	var connected atomic.Uint64 // agents
	began := time.Now()
	slots := make(chan struct{}, makers)
	for n := range o.agents {
		slots <- struct{}{}
		done := sync.OnceFunc(func() { <-slots })
		token := tokens[n/perTunnel]
		agents.Go(func() {
			_ = sharedtunnel.NewAgent(sharedtunnel.AgentOptions{
				Relay: relay, Connections: perAgent, Token: func() (string, error) { return token, nil }, Log: slog.New(slog.DiscardHandler),
				Notify: func(open int) {
					if open == perAgent {
						connected.Add(1)
						done()
					}
				},
			}).Run(ctx, 0)
			done()
		})
	}
	if err := until(ctx, func() (bool, error) { return connected.Load() >= uint64(o.agents), nil }); err != nil {
		return fmt.Errorf("%d of %d agents are connected: %w", connected.Load(), o.agents, err)
	}
	took := time.Since(began)
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := i.Memory()
	if err != nil {
		return err
	}
	each := float64(after.Now-before.Now) / float64(o.agents)
	table.Add(fmt.Sprintf("%d agents of %d tunnels, idle, each with a connection to this relay: memory of the product for one", o.agents, len(tokens)),
		fmt.Sprintf("%d KB", mostAgent>>10), fmt.Sprintf("%.1f KB", each/1024), each < mostAgent)
	table.Add("the same: connected", "", fmt.Sprintf("in %v", took.Round(100*time.Millisecond)), true)
	return nil
}

// others are the files that a process has open beside its agents' connections.
const others = 1000

// descriptors has this process and its children open as many files as there are connections, or
// fewer agents connect.
func descriptors(o *options) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("look at the limit of open files: %w", err)
	}
	o.agents = min(o.agents, uint(limit.Max-others)/perAgent)
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("open %d files: %w", limit.Cur, err)
	}
	return nil
}

// tokens makes the tunnels, and the accounts that they are of.
func tokens(ctx context.Context, i *instance.Instance, o options) ([]string, error) {
	all := make([]string, (o.agents+perTunnel-1)/perTunnel)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for first := 0; first < len(all); first += perOwner {
		account := fmt.Sprint("owner", first/perOwner)
		create := exec.CommandContext(ctx, o.binary, "account", "create", account) //nolint:gosec // whoever runs this chose it
		create.Env = append(create.Environ(), "GATEWRIGHT_DATA_DIR="+i.Data())
		out, err := create.Output()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("make the account %s: %w", account, err), group.Wait())
		}
		key := strings.TrimSpace(string(out))
		for n := first; n < min(first+perOwner, len(all)); n++ {
			group.Go(func() (err error) {
				all[n], err = tunnel(ctx, i, key, account, fmt.Sprint("tunnel-", n), "")
				return err
			})
		}
	}
	return all, group.Wait()
}
