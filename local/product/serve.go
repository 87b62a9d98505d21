package product

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/gctuning"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// startWork starts the tasks that run until ctx ends: servers, triggers, and periodic work.
func (r *run) startWork(ctx context.Context) error {
	r.product.bodies = bodies.New(r.settings.bodyBytes())
	r.settings.budget = listen.NewBudget(r.settings.listener.Connections)
	r.serveClients(ctx)
	r.startRelay(ctx)
	r.start(func() error { return r.product.runTriggers(ctx, r.settings.program.stopTimeout) })
	r.startUpkeep(ctx)
	r.warnAboutAddresses(ctx)
	r.onClose(r.admin.serve(ctx, r.log))
	r.onClose(func() { // ends the tasks if showReady fails; otherwise wait has ended them
		r.fail(nil)
		_ = r.tasks.Wait()
	})
	return nil
}

// start starts a task, which runs until the run ends. If the task fails, the run ends with its error.
func (r *run) start(task func() error) {
	r.tasks.Go(func() error {
		err := task()
		if err != nil {
			r.fail(err)
		}
		return err
	})
}

// serveClients starts to serve requests at the listeners of the management API and of the gateway, by plain HTTP and by
// TLS. If the certificates come from an ACME authority, it also starts to obtain them.
func (r *run) serveClients(ctx context.Context) {
	r.start(func() error {
		return r.serve(ctx, "the management API", r.api, listen.Options{Handler: r.product.api})
	})
	r.start(func() error {
		return r.serve(ctx, "the gateway", r.gateway, listen.Options{Handler: r.plainHandler})
	})
	if r.tlsServer == nil {
		return
	}
	r.start(func() error {
		return r.serve(ctx, "the gateway by TLS", r.tlsServer.listener,
			listen.Options{Handler: r.tlsHandler, TLS: r.tlsServer.config, Misdirected: r.tlsServer.misdirected})
	})
	if r.tlsServer.authority != nil {
		r.start(func() error { return r.tlsServer.obtain(ctx, r.settings) })
	}
}

// startRelay starts the relay in this process. If the relay has no listener of its own, because it is served at a name
// of the domain, startRelay starts only its periodic work. It does nothing if the relay is a separate process or
// disabled.
func (r *run) startRelay(ctx context.Context) {
	switch {
	case r.product.relay == nil:
	case r.relay != nil:
		r.start(func() error { return r.product.serveRelay(ctx, r.relay, r.settings, r.admin.countConnections, r.log) })
	default:
		r.start(func() error { return r.product.runRelayUpkeep(ctx, r.settings) })
	}
}

// startUpkeep starts the periodic work.
func (r *run) startUpkeep(ctx context.Context) {
	tasks := []func(){
		func() { gctuning.Tune(ctx) },
		func() { r.data.bucket.runCleanup(ctx, r.log) },
		func() { r.data.runDailyChecks(ctx, r.log) },
	}
	if r.product.upkeep != nil {
		tasks = append(tasks, func() { r.product.upkeep(ctx) })
	}
	for _, task := range tasks {
		r.start(func() error {
			task()
			return nil
		})
	}
}

// warnAboutAddresses logs warnings about an installation with a domain: if other machines can reach the management API
// by plain HTTP, or if the names of the domain do not resolve to this machine.
func (r *run) warnAboutAddresses(ctx context.Context) {
	warnPlainAPI(ctx, r.settings, r.log)
	if r.settings.domain == "" {
		return
	}
	r.start(func() error {
		localAddrs, _ := net.InterfaceAddrs() // after an error, only loopback addresses count as local
		checkResolution(ctx, r.settings.domain, net.DefaultResolver, localAddrs, r.log)
		return nil
	})
}

// showReady waits until the product responds. It then prints the addresses and
// writes them to the ready file. If ctx ends first, it prints and writes nothing.
func (r *run) showReady(ctx context.Context) error {
	if waitServing(ctx, r.settings.listener, r.state.API+"/openapi", r.state.Gateway+"/") == nil {
		r.terminal.Ready(r.summary())
		r.level.Set(slog.LevelInfo)
		return writeReadyFile(r.settings.readyFile, r.state)
	}
	return nil
}

// wait waits until ctx ends, because of a signal, a failed task or the end of a launcher, and then stops the product.
func (r *run) wait(ctx context.Context) {
	<-ctx.Done()
	r.terminal.Step("Stopping")
	_ = r.tasks.Wait() // start has already passed an error to r.fail
	r.product.stop(ctx, r.settings.program.stopTimeout)
}

// summary returns the summary of a started run for the terminal. The summary of a server
// does not contain the account key, because process managers store the output of a server.
func (r *run) summary() terminal.Summary {
	s, c := r.settings, r.data.parts.Config
	summary := terminal.Summary{
		API: r.state.API, Gateway: c.DeploymentOrigin("<deployment>"), ACMEDirectory: c.ACMEDirectory, Relay: r.state.Relay,
		Version: release.Version(), Account: accountName, Key: r.accountKey,
		KeyFile: filepath.Join(s.dataDir, datadir.AccountKey), DataDir: s.dataDir,
	}
	if s.domain != "" {
		summary.API = c.APIURL
	} else {
		summary.TLS, summary.CA = r.tlsServer.deploymentURL(c), r.tlsServer.caCertificatePath(s)
	}
	if s.program.server {
		summary.Key = ""
	}
	summary.OperatorURL, summary.OperatorNote = r.admin.metricsAddress()
	return summary
}

// origin returns the URL at which this machine can reach a listener by HTTP.
func origin(a net.Addr) string {
	if at, err := netip.ParseAddrPort(a.String()); err == nil && at.Addr().IsUnspecified() {
		return "http://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
	}
	return "http://" + a.String()
}

// serve serves requests at a listener until ctx ends, and then waits for the requests in
// progress, up to stopTimeout. It sets the options that are the same for all listeners.
func (r *run) serve(ctx context.Context, name string, l net.Listener, o listen.Options) error {
	o.Settings, o.Budget, o.Bodies, o.IDs = r.settings.listener, r.settings.budget, r.product.bodies, r.data.parts.IDs
	o.Log = r.log.With("listener", name)
	server := listen.New(o)
	r.admin.countConnections(server)
	serveErr := make(chan error, 1)
	go func() { serveErr <- server.Serve(l) }()
	select {
	case err := <-serveErr:
		return fmt.Errorf("serve %s: %w", name, err)
	case <-ctx.Done():
	}
	shutdownCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.settings.program.stopTimeout)
	defer cancel()
	if err := server.Shutdown(shutdownCtx); err != nil {
		_ = server.Close() // streams and upgraded connections do not end on their own
	}
	<-serveErr
	return nil
}

// selfClient returns a client for this process's own addresses, whose listeners have the settings l. The client never
// uses the proxy of the environment. Go's default client would use it for addresses that are not on the loopback
// interface.
func selfClient(l config.Listener) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return listen.DialLocal(ctx, address, l)
		},
	}}
}

// waitServing waits until each URL responds with a status below 500. It returns an error if ctx ends first.
func waitServing(ctx context.Context, l config.Listener, urls ...string) error {
	client := selfClient(l)
	for _, u := range urls {
		for {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, u, nil)
			if err != nil {
				return fmt.Errorf("ask %s: %w", u, err)
			}
			response, err := client.Do(request)
			if err == nil {
				_ = response.Body.Close()
				if response.StatusCode < http.StatusInternalServerError {
					break
				}
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// removeReadyFile removes the ready file if path is not "" and the file exists.
func removeReadyFile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be removed: %w", config.VarReadyFile, err)
	}
	return nil
}

// writeReadyFile writes the ready file atomically if path is not "". Its lines are the addresses of the API, the
// gateway, TLS and the relay. A line is empty if there is no such address, and empty lines at the end are omitted.
func writeReadyFile(path string, state datadir.State) error {
	if path == "" {
		return nil
	}
	dir, err := datadir.Open(filepath.Dir(path))
	if err == nil {
		err = dir.Write(filepath.Base(path),
			[]byte(strings.TrimRight(strings.Join([]string{state.API, state.Gateway, state.TLS, state.Relay}, "\n"), "\n")+"\n"))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", config.VarReadyFile, err)
	}
	return nil
}

// processBodyBytes is the default memory for request bodies if functions are separate processes. Package apigateway
// then reserves memory for a whole body and two copies of it. A client may use a quarter of the memory, and a request
// may use three quarters of that quarter. So the constant makes this share as large as three copies of the largest
// body.
const processBodyBytes = 3 * apigateway.MaxBodyBytes * 4 * 4 / 3

// bodyBytes returns the maximum memory for all request bodies that this process buffers. If functions are separate
// processes, processBodyBytes replaces the setting's default.
func (s settings) bodyBytes() int64 {
	if s.functions != "" && s.listener.BufferedBodyBytes == config.DefaultListener().BufferedBodyBytes {
		return processBodyBytes
	}
	return int64(s.listener.BufferedBodyBytes)
}
