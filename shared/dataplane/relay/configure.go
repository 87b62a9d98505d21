package relay

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
)

const (
	// configureTimeout limits the time for agents to accept their services.
	configureTimeout = 5 * time.Second
	// deletedTunnelTimeout is how long the requests in flight of a deleted tunnel may continue.
	deletedTunnelTimeout = 30 * time.Second
)

// configuredServices has the services that the agents of each tunnel have last received.
// The zero value has none. It is safe for concurrent use.
type configuredServices struct {
	flights singleflight.Group

	mu    sync.Mutex
	byRef map[string][]tunnel.Service
}

// has reports whether the agents of a tunnel have received exactly these services.
func (s *configuredServices) has(ref string, services []tunnel.Service) bool {
	s.mu.Lock()
	received, ok := s.byRef[ref]
	s.mu.Unlock()
	if !ok || len(received) != len(services) {
		return false
	}
	// Most often, both are the same slice, which the directory has cached.
	return len(received) == 0 || &received[0] == &services[0] || reflect.DeepEqual(received, services)
}

func (s *configuredServices) set(ref string, services []tunnel.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byRef == nil {
		s.byRef = map[string][]tunnel.Service{}
	}
	s.byRef[ref] = services
}

// retain removes all tunnels except refs.
func (s *configuredServices) retain(refs []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	retained := make(map[string][]tunnel.Service, len(refs))
	for _, ref := range refs {
		if configured, ok := s.byRef[ref]; ok {
			retained[ref] = configured
		}
	}
	s.byRef = retained
}

// configureAgents sends changed services to the agents of a tunnel. It runs before a request is sent to the agents,
// so that a change applies as soon as the directory has it. It closes the connections of agents that do
// not accept the change in time; they receive it when they connect again. If the directory is not
// available, agents continue with their last services. It disconnects the agents of a deleted tunnel.
func (rl *Relay) configureAgents(ctx context.Context, ref string) {
	if len(rl.agents.ForTunnel(ref)) == 0 {
		return
	}
	services, err := rl.options.Directory.Services(ctx, ref)
	if errors.Is(err, tunnels.ErrNoTunnel) {
		rl.disconnectAgents(ctx, ref)
		return
	}
	if err != nil {
		rl.options.Log.LogAttrs(ctx, slog.LevelWarn, "relay: the services of a tunnel can't be looked up",
			slog.String("tunnel", ref), slog.Any("error", err))
		return
	}
	if rl.configured.has(ref, services) {
		return
	}
	done := rl.configured.flights.DoChan(ref, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), configureTimeout)
		defer cancel()
		var work sync.WaitGroup
		for _, l := range rl.agents.ForTunnel(ref) {
			work.Go(func() {
				if err := l.Configure(ctx, services); err != nil {
					rl.options.Log.LogAttrs(ctx, slog.LevelInfo, "relay: an agent did not hear of its services",
						slog.String("tunnel", ref), slog.Any("error", err))
					l.Close()
				}
			})
		}
		work.Wait()
		rl.configured.set(ref, services)
		return nil, nil // configureAgents only waits for the end
	})
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// disconnectAgents makes the agents of a deleted tunnel connect again, which fails because the token is refused. So
// the operator of an agent sees the reason, and no agent with the token stays connected. Requests in flight, such as
// WebSockets, are broken after deletedTunnelTimeout. disconnectAgents does not block.
func (rl *Relay) disconnectAgents(ctx context.Context, ref string) {
	rl.configured.flights.DoChan("away "+ref, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deletedTunnelTimeout)
		defer cancel()
		rl.agents.DrainTunnel(ctx, ref)
		return nil, nil // nobody waits for the result
	})
}

// configureAll sends changed services to the agents of all tunnels every renewInterval, until ctx ends. So agents that
// get no requests also receive changes. Agents keep their services in memory and show them to their owners.
func (rl *Relay) configureAll(ctx context.Context) {
	ticker := time.NewTicker(renewInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		refs := rl.leases.refs()
		rl.configured.retain(refs)
		for _, ref := range refs {
			rl.configureAgents(ctx, ref)
		}
	}
}
