package product

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/gatewright/gatewright/functions/relay"
	"github.com/gatewright/gatewright/local/dev/emulator"
	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/service/host"
)

// listenRelay opens the listener for the agents of tunnels. It returns nil if the relay is disabled, or if it is served
// at a name of the domain.
func listenRelay(ctx context.Context, s settings) (net.Listener, error) {
	if s.relayAddr == config.NoAddr || s.domain != "" {
		return nil, nil // disabled, or the relay is served at a name of the domain
	}
	return listen.Open(ctx, s.relayAddr, "the relay of tunnels", config.VarRelayAddr)
}

// addrOf returns a listener's address, or nil for no listener.
func addrOf(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// serveRelay serves agents until ctx ends. It then disconnects each agent when the agent's requests in progress have
// ended, at the latest after stopTimeout.
func (p *product) serveRelay(
	ctx context.Context, l net.Listener, s settings, onCreated func(*listen.Server), log *slog.Logger,
) error {
	return host.ServeAll(ctx, p.relay, host.ShutdownTimes{Drain: s.program.stopTimeout},
		host.Endpoint{Listener: l, OnCreated: onCreated, Options: listen.Options{
			Settings: s.listener, Budget: s.budget, Bodies: p.bodies, PathBytes: relay.Service.PathBytes, IDs: p.ids,
			Log: log.With("listener", "the relay of tunnels"),
		}})
}

// runRelayUpkeep does the periodic work of a relay until ctx ends. The relay has no listener of its own, because it is
// served at a name of the domain. When ctx has ended, runRelayUpkeep disconnects the agents like serveRelay.
func (p *product) runRelayUpkeep(ctx context.Context, s settings) error {
	return host.ServeAll(ctx, p.relay, host.ShutdownTimes{Drain: s.program.stopTimeout})
}

// startRelay starts the relay as a separate process. As in AWS, gateways get the relay's address from their
// configuration, and sign their requests to the relay.
func (e *executables) startRelay(ctx context.Context, res *resources, listenAddr net.Addr) (*relayProcess, error) {
	path, err := filepath.Abs(filepath.Join(e.folder, relay.Service.Name, "container"))
	if err != nil {
		return nil, fmt.Errorf("find the relay: %w", err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no relay: `make run-lambda` builds it, or set %s to %s", e.folder, config.VarRelayAddr,
			config.NoAddr)
	}
	logs, err := res.dir.CreateFolder("logs")
	if err != nil {
		return nil, err
	}
	log, err := supervise.OpenLog(filepath.Join(logs, relay.Service.Name+".log"), maxLogBytes)
	if err != nil {
		return nil, err
	}
	origin := res.parts.Config.Relay
	child, err := supervise.Start(ctx, supervise.Spec{
		Name: "the relay", Path: path, Env: e.relayEnvironment(listenAddr),
		Log: log, Tail: log.Last, StopTimeout: Laptop.stopTimeout,
		Ready: func(ctx context.Context) error { return checkHealth(ctx, origin+relay.Service.Health) },
	}, res.parts.Log)
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	return &relayProcess{child, log}, nil
}

// relayEnvironment returns the environment of the relay's process, which listens at listenAddr.
func (e *executables) relayEnvironment(listenAddr net.Addr) []string {
	env := []string{
		"AWS_REGION=" + emulator.Region,
		"AWS_ACCESS_KEY_ID=" + e.credentials.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + e.credentials.SecretAccessKey,
		config.VarRelayAddr + "=" + listenAddr.String(),
	}
	for name, value := range e.env {
		env = append(env, name+"="+value)
	}
	return env
}

// checkHealth requests the health of the relay once. It returns an error unless the status is 200.
func checkHealth(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := selfClient(config.Listener{}).Do(r) // the relay's process does not use the PROXY protocol
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("its health is %s", resp.Status)
	}
	return nil
}

// relayProcess is a relay that runs as a separate process.
type relayProcess struct {
	child *supervise.Child
	log   *supervise.Log
}

// Stop drains the relay, and ends it.
func (r *relayProcess) Stop() {
	r.child.Stop()
	_ = r.log.Close()
}
