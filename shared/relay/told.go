package relay

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

const (
	// tellTimeout bounds how long agents take to hear of their services.
	tellTimeout = 5 * time.Second
	// goneTimeout is how long requests under way may take whose tunnel was deleted.
	goneTimeout = 30 * time.Second
)

// told are the services that the agents of each tunnel were told of last. The zero value has
// told nobody. It is safe for concurrent use.
type told struct {
	flights singleflight.Group

	mu    sync.Mutex
	byRef map[string][]tunnel.Service
}

// knows reports whether the agents of a tunnel have heard of just these services.
func (td *told) knows(ref string, services []tunnel.Service) bool {
	td.mu.Lock()
	its, ok := td.byRef[ref]
	td.mu.Unlock()
	if !ok || len(its) != len(services) {
		return false
	}
	// Most often they are the very same that a directory remembers.
	return len(its) == 0 || &its[0] == &services[0] || reflect.DeepEqual(its, services)
}

func (td *told) set(ref string, services []tunnel.Service) {
	td.mu.Lock()
	defer td.mu.Unlock()
	if td.byRef == nil {
		td.byRef = map[string][]tunnel.Service{}
	}
	td.byRef[ref] = services
}

// keep forgets all tunnels but those named.
func (td *told) keep(refs []string) {
	td.mu.Lock()
	defer td.mu.Unlock()
	kept := make(map[string][]tunnel.Service, len(refs))
	for _, ref := range refs {
		if its, ok := td.byRef[ref]; ok {
			kept[ref] = its
		}
	}
	td.byRef = kept
}

// tell has the agents of a tunnel hear of services that have changed since they were told: before
// a request is sent to them, so that a change holds as soon as the directory has it. Agents that
// do not take it in time are cut, and hear it when they connect again. Where the directory does not
// answer they go by what they know. Those of a tunnel that was deleted are sent away.
func (rl *Relay) tell(ctx context.Context, ref string) {
	if len(rl.agents.Of(ref)) == 0 {
		return
	}
	services, err := rl.options.Directory.Services(ctx, ref)
	if errors.Is(err, tunnels.ErrNoTunnel) {
		rl.sendAway(ctx, ref)
		return
	}
	if err != nil {
		rl.options.Log.LogAttrs(ctx, slog.LevelWarn, "relay: the services of a tunnel can't be looked up", slog.String("tunnel", ref), slog.Any("error", err))
		return
	}
	if rl.told.knows(ref, services) {
		return
	}
	flight := rl.told.flights.DoChan(ref, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tellTimeout)
		defer cancel()
		var work sync.WaitGroup
		for _, l := range rl.agents.Of(ref) {
			work.Go(func() {
				if err := l.Configure(ctx, services); err != nil {
					rl.options.Log.LogAttrs(ctx, slog.LevelInfo, "relay: an agent did not hear of its services", slog.String("tunnel", ref), slog.Any("error", err))
					l.Close()
				}
			})
		}
		work.Wait()
		rl.told.set(ref, services)
		return nil, nil // what there is to hear is that it is over
	})
	select {
	case <-flight:
	case <-ctx.Done():
	}
}

// sendAway has the agents of a tunnel that was deleted connect again, which its token is refused for:
// so whoever runs them hears of it, and nobody who has had the token stays. What is under way, such as a
// WebSocket, is cut after goneTimeout. It does not wait.
func (rl *Relay) sendAway(ctx context.Context, ref string) {
	rl.told.flights.DoChan("away "+ref, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneTimeout)
		defer cancel()
		rl.agents.DrainOf(ctx, ref)
		return nil, nil // what there is to hear is that it is over
	})
}

// tellAll tells agents that nobody asks, which keep what they know in memory and show it to
// their owners, until ctx ends.
func (rl *Relay) tellAll(ctx context.Context) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		refs := rl.leases.refs()
		rl.told.keep(refs)
		for _, ref := range refs {
			rl.tell(ctx, ref)
		}
	}
}
