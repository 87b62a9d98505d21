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
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/service/host"
)

// listenRelay opens the listener for the agents of tunnels, nil where there is to be none.
func listenRelay(ctx context.Context, s settings) (net.Listener, error) {
	if s.relayAddr == config.NoAddr || s.domain != "" {
		return nil, nil // none is what the setting says, or it is at a name of the domain
	}
	return listen.On(ctx, s.relayAddr, "the relay of tunnels", config.VarRelayAddr)
}

// addr is a listener's address, nil for none.
func addr(l net.Listener) net.Addr {
	if l == nil {
		return nil
	}
	return l.Addr()
}

// serveRelay takes agents until ctx ends, and then has them leave: a request that is under
// way through them ends first.
func (p *product) serveRelay(ctx context.Context, l net.Listener, s settings, made func(*listen.Server), log *slog.Logger) error {
	return host.ServeAt(ctx, p.relay, host.Times{Drain: s.program.stopTimeout}, host.At{Listener: l, Made: made, Options: listen.Options{
		Settings: s.listener, Budget: s.budget, Bodies: p.bodies, PathBytes: relay.Service.PathBytes, IDs: p.ids, Log: log.With("listener", "the relay of tunnels"),
	}})
}

// keepRelay does what the relay has to do from time to time, where others listen for it, until ctx ends, and
// then has agents leave.
func (p *product) keepRelay(ctx context.Context, s settings) error {
	return host.ServeAt(ctx, p.relay, host.Times{Drain: s.program.stopTimeout})
}

// startRelay starts the relay as a process of its own, which is asked as in AWS: by
// gateways that know its address and sign what they ask.
func (w *bootstraps) startRelay(ctx context.Context, o *opened, at net.Addr) (*relayProcess, error) {
	path, err := filepath.Abs(filepath.Join(w.folder, relay.Service.Name, "container"))
	if err != nil {
		return nil, fmt.Errorf("find the relay: %w", err)
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s has no relay: `make run-lambda` builds it, or set %s to %s", w.folder, config.VarRelayAddr, config.NoAddr)
	}
	logs, err := o.dir.Sub("logs")
	if err != nil {
		return nil, err
	}
	log, err := supervise.OpenLog(filepath.Join(logs, relay.Service.Name+".log"), maxLogBytes)
	if err != nil {
		return nil, err
	}
	origin := o.parts.Config.Relay
	child, err := supervise.Start(ctx, supervise.Spec{
		Name: "the relay", Path: path, Env: w.environment(at),
		Log: log, Tail: log.Last, StopTimeout: Laptop.stopTimeout,
		Ready: func(ctx context.Context) error { return healthy(ctx, origin+relay.Service.Health) },
	}, o.parts.Log)
	if err != nil {
		_ = log.Close()
		return nil, err
	}
	return &relayProcess{child, log}, nil
}

// environment is that of a process which is no function, at an address.
func (w *bootstraps) environment(at net.Addr) []string {
	env := []string{
		"AWS_REGION=" + emulator.Region,
		"AWS_ACCESS_KEY_ID=" + w.credentials.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY=" + w.credentials.SecretAccessKey,
		config.VarRelayAddr + "=" + at.String(),
	}
	for name, value := range w.env {
		env = append(env, name+"="+value)
	}
	return env
}

// healthy asks once for a service's health.
func healthy(ctx context.Context, address string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	out, err := own(config.Listener{}).Do(r) // which its process is not told
	if err != nil {
		return err
	}
	_ = out.Body.Close()
	if out.StatusCode != http.StatusOK {
		return fmt.Errorf("its health is %s", out.Status)
	}
	return nil
}

// relayProcess is a relay that runs as a process of its own.
type relayProcess struct {
	child *supervise.Child
	log   *supervise.Log
}

// Stop has the relay drain, and ends it.
func (r *relayProcess) Stop() {
	r.child.Stop()
	_ = r.log.Close()
}
