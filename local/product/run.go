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

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/local/apigateway"
	"github.com/gatewright/gatewright/local/control"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/accounts"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/behind"
	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/garbage"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/release"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// runCommand is a run's name in the run state.
const runCommand = "run"

// maxLogBytes bounds the run's own log, twice over.
const maxLogBytes = 16 << 20

// runProduct starts everything, tells the person, and serves until ctx ends or
// something breaks that cannot be mended.
func runProduct(asked context.Context, s settings) (err error) {
	ctx, cancel := context.WithCancelCause(asked)
	defer cancel(nil)
	t := terminal.New(os.Stdout, terminal.Colours(os.Stdout, os.Getenv))
	defer takeForeground(launchers())()

	if err := s.refuseOthers(); err != nil {
		return err
	}
	dir, err := datadir.Open(s.dataDir)
	if err != nil {
		return err
	}
	l, err := lock(ctx, dir, runCommand, func(state datadir.State) error {
		if state.Command != runCommand {
			return nil // a short command: it will not be long
		}
		return fmt.Errorf("gatewright runs in %s already (process %d%s): stop it first, or name another directory in %s",
			s.dataDir, state.PID, comma(state.API), config.VarDataDir)
	})
	if err != nil {
		return err
	}
	defer l.Release()
	defer dir.ClearState()

	// Of an earlier run it is gone before this one starts, of this one when it ends.
	if err := removeReadyFile(s.readyFile); err != nil {
		return err
	}
	defer func() { _ = removeReadyFile(s.readyFile) }()

	// The ports first: nothing else is worth starting without them.
	apiListener, err := listen.On(ctx, s.apiAddr, "the management API", config.VarAPIAddr)
	if err != nil {
		return err
	}
	defer func() { _ = apiListener.Close() }()
	gatewayListener, err := listen.On(ctx, s.gatewayAddr, "the gateway", config.VarGatewayAddr)
	if err != nil {
		return err
	}
	defer func() { _ = gatewayListener.Close() }()

	tlsListener, err := listenTLS(ctx, s)
	if err != nil {
		return err
	}
	if tlsListener != nil {
		defer func() { _ = tlsListener.Close() }()
	}

	relayListener, err := listenRelay(ctx, s)
	if err != nil {
		return err
	}
	if relayListener != nil {
		defer func() { _ = relayListener.Close() }()
	}
	watch, err := listenAdmin(ctx, s)
	if err != nil {
		return err
	}
	defer watch.close()
	shown := new(slog.LevelVar) // our own first requests are nobody's business
	shown.Set(slog.LevelWarn)
	log, closeLog, err := openLog(dir, t, shown, watch.dropped)
	if err != nil {
		return err
	}
	defer closeLog()
	log.InfoContext(ctx, "gatewright starts", "version", release.Version(), "dataFormat", embedded.Format, "built", release.Built())
	config.LogStandardHTTP(s.listener.StandardHTTP, log)
	stopWithParents(ctx, func(name string) {
		t.Step("%s is gone, stopping", name)
		cancel(errInterrupted)
	})

	o, err := open(ctx, s, dir, t, log, at{apiListener.Addr(), gatewayListener.Addr(), addr(relayListener)}, cancel)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.close()) }()
	watch.opened(o)
	if err := o.takeOver(ctx, log); err != nil {
		return err
	}
	key, err := ensureAccount(ctx, o.accounts, dir, log)
	if err != nil {
		return err
	}
	commands, err := control.Listen(ctx, s.program.runHere(o), log)
	if err != nil {
		return err
	}
	defer commands.Close()
	o.unasked(addr(relayListener), commands.Addr())
	wire := assemble
	if s.functions != "" {
		wire = func(o *opened, api net.Addr) (*product, error) {
			return assembleProcesses(ctx, o, s.functions, api, gatewayListener.Addr(), relayListener)
		}
	}
	p, err := wire(o, apiListener.Addr())
	if err != nil {
		return err
	}
	defer p.close()
	secure, err := o.secure(ctx, s, p, tlsListener, log)
	if err != nil {
		return err
	}
	plain, byTLS := p.gateway, p.gateway
	if s.domain != "" {
		plain, byTLS = o.byName(s, p, secure)
		if secure != nil {
			watch.certified(ctx, apiName(s.domain), secure.own)
		}
	}
	state := datadir.State{
		PID: os.Getpid(), Command: runCommand, StartedOn: time.Now().UTC(),
		API: origin(apiListener.Addr()), Gateway: origin(gatewayListener.Addr()),
		TLS: secure.origin(), Relay: o.parts.Config.Relay, Control: commands.Endpoint,
	}
	if err := dir.SaveState(state); err != nil {
		return err
	}

	p.bodies = bodies.New(s.bodyBytes())
	s.budget = listen.NewBudget(s.listener.Connections)
	var work errgroup.Group
	work.Go(func() error {
		return serve(ctx, "the management API", s, apiListener, watch.count, listen.Options{Handler: p.api, Settings: s.listener, Budget: s.budget, Bodies: p.bodies, IDs: o.parts.IDs, Log: log})
	})
	work.Go(func() error {
		return serve(ctx, "the gateway", s, gatewayListener, watch.count, listen.Options{Handler: plain, Settings: s.listener, Budget: s.budget, Bodies: p.bodies, IDs: o.parts.IDs, Log: log})
	})
	if secure != nil {
		work.Go(func() error {
			return serve(ctx, "the gateway by TLS", s, secure.listener, watch.count, listen.Options{
				Handler: byTLS, Settings: s.listener, Budget: s.budget, Bodies: p.bodies, IDs: o.parts.IDs, Log: log, TLS: secure.config, Misdirected: secure.misdirected,
			})
		})
	}
	switch {
	case relayListener != nil && p.relay != nil:
		work.Go(func() error { return p.serveRelay(ctx, relayListener, s, watch.count, log) })
	case p.relay != nil:
		work.Go(func() error { return p.keepRelay(ctx, s) })
	}
	if secure != nil && secure.authority != nil {
		work.Go(func() error { return secure.obtain(ctx, s) })
	}
	tellPlainAPI(ctx, s, log)
	if s.domain != "" {
		work.Go(func() error {
			own, _ := net.InterfaceAddrs() // none: it is told so for each
			tellResolution(ctx, s.domain, net.DefaultResolver, own, log)
			return nil
		})
	}
	work.Go(func() error { return p.runTriggers(ctx, s.program.stopTimeout) })
	if p.keep != nil {
		work.Go(func() error {
			p.keep(ctx)
			return nil
		})
	}
	work.Go(func() error {
		garbage.Keep(ctx)
		return nil
	})
	work.Go(func() error {
		o.bucket.keepHouse(ctx, log)
		return nil
	})
	work.Go(func() error {
		o.keepChecking(ctx, log)
		return nil
	})
	ended := make(chan error, 1)
	go func() { ended <- work.Wait() }()
	defer watch.serve(ctx, log)()

	if err := answering(ctx, s.listener, state.API+"/openapi", state.Gateway+"/"); err == nil {
		sum := summary(s, state, o, secure, key)
		sum.Operators, sum.OperatorsNote = watch.shown()
		t.Ready(sum)
		shown.Set(slog.LevelInfo)
		if err := writeReadyFile(s.readyFile, state); err != nil {
			return err
		}
	}
	select {
	case err := <-ended:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		t.Step("Stopping")
		<-ended
		p.stop(ctx, s.program.stopTimeout)
	}
	if cause := context.Cause(ctx); cause != nil && asked.Err() == nil && !errors.Is(cause, errInterrupted) {
		return cause
	}
	t.Step("Stopped. The next start goes on from here.")
	return nil
}

// summary is what a person is told of a run that has begun. What a server prints is kept by who started it,
// so that no key is in it.
func summary(s settings, state datadir.State, o *opened, secure *secured, key string) terminal.Summary {
	c := o.parts.Config
	sum := terminal.Summary{
		API: state.API, Gateway: c.DeploymentOrigin("<deployment>"), Authority: c.ACMEDirectory, Relay: state.Relay,
		Version: release.Version(), Account: accountName, Key: key, KeyFile: filepath.Join(s.dataDir, datadir.AccountKey), Data: s.dataDir,
	}
	if s.domain != "" {
		sum.API = c.APIURL
	} else {
		sum.TLS, sum.CA = secure.deployments(c), secure.authorityFile(s)
	}
	if s.program.server {
		sum.Key = ""
	}
	return sum
}

// comma is what follows in a list.
func comma(address string) string {
	if address == "" {
		return ""
	}
	return ", " + address
}

// origin is the address under which this machine reaches a listener.
func origin(a net.Addr) string {
	if at, err := netip.ParseAddrPort(a.String()); err == nil && at.Addr().IsUnspecified() {
		return "http://" + netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port()).String()
	}
	return "http://" + a.String()
}

// openLog returns the run's log: lines for the person, JSON for the file. dropped is told how many lines the file
// has not.
func openLog(dir *datadir.Dir, t *terminal.Terminal, shown slog.Leveler, dropped func(lines int)) (*slog.Logger, func(), error) {
	logs, err := dir.Sub("logs")
	if err != nil {
		return nil, nil, err
	}
	file, err := supervise.OpenLog(filepath.Join(logs, "gatewright.log"), maxLogBytes)
	if err != nil {
		return nil, nil, err
	}
	lines := t.Lines(shown)
	var unwaiting *slog.Logger // of what is written behind, which cannot wait for itself
	written := behind.New(file, func(lost int) {
		dropped(lost)
		behind.TellLost(unwaiting, lost)
	})
	inFile := behind.JSON(written, slog.LevelDebug)
	unwaiting = slog.New(slog.NewMultiHandler(lines, inFile))
	prompt := behind.Handler(inFile, written, behind.OfRequest)
	return slog.New(slog.NewMultiHandler(lines, prompt)), func() {
		lines.Flush()
		written.Close()
		_ = file.Close()
	}, nil
}

// serve answers requests until ctx ends, by a server that made is told of, and then finishes those under way.
func serve(ctx context.Context, name string, s settings, l net.Listener, made func(*listen.Server), o listen.Options) error {
	o.Log = o.Log.With("listener", name)
	server := listen.New(o)
	made(server)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", name, err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.program.stopTimeout)
	defer cancel()
	if err := server.Shutdown(end); err != nil {
		_ = server.Close() // streams and upgraded connections have no end of their own
	}
	<-failed
	return nil
}

// own asks our own addresses, which a proxy of the environment does not reach: Go leaves it out for the
// loopback alone, and an address may be another of this machine's. They have the listener's settings.
func own(l config.Listener) *http.Client {
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return listen.DialOwn(ctx, address, l)
		},
	}}
}

// answering waits until each address answers anything but a failure of ours.
func answering(ctx context.Context, l config.Listener, addresses ...string) error {
	client := own(l)
	for _, a := range addresses {
		for {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, a, nil)
			if err != nil {
				return fmt.Errorf("ask %s: %w", a, err)
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

// removeReadyFile removes the ready file of a run that is over.
func removeReadyFile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s cannot be removed: %w", config.VarReadyFile, err)
	}
	return nil
}

// writeReadyFile writes the ready file, if one is named, in one step.
func writeReadyFile(path string, state datadir.State) error {
	if path == "" {
		return nil
	}
	dir, err := datadir.Open(filepath.Dir(path))
	if err == nil {
		err = dir.Write(filepath.Base(path), []byte(strings.TrimRight(strings.Join([]string{state.API, state.Gateway, state.TLS, state.Relay}, "\n"), "\n")+"\n"))
	}
	if err != nil {
		return fmt.Errorf("%s cannot be written: %w", config.VarReadyFile, err)
	}
	return nil
}

// accountName is the account of the first start.
const accountName = "demo"

// ensureAccount sees to it that the account is there and that the key file
// holds a key of it, and answers the key if it had to be made. A process killed
// between making a key and writing it leaves a key that nobody knows and no
// file: the next start makes another key.
//
// What is there decides at every start, and no marker of how far an earlier one
// came, which could be wrong too: so a lost file, and one without a key of the
// account, mend themselves. Package preflight has refused an account key without a store
// before. Writing the file first would need accounts to be made
// with a key that somebody else chose. When keys can be revoked, the unknown
// one should be.
func ensureAccount(ctx context.Context, s *accounts.Service, dir *datadir.Dir, log *slog.Logger) (string, error) {
	content, err := dir.Read(datadir.AccountKey)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err == nil {
		_, err := s.Authenticate(ctx, strings.TrimSpace(string(content)))
		if err == nil {
			return "", nil
		}
		if !fault.Is(err, fault.Unauthenticated) {
			return "", err
		}
		log.WarnContext(ctx, "the key in this file was revoked, has expired or is damaged: the file gets another key of the account", "file", datadir.AccountKey, "account", accountName)
	}
	_, key, err := s.Create(ctx, accountName)
	if fault.Is(err, fault.Conflict) {
		_, key, err = s.CreateKey(ctx, accountName, accounts.Spec{
			Label: "Full access key of " + accountName, Permissions: auth.Full(),
		})
	}
	if err != nil {
		return "", fmt.Errorf("make the account %s: %w", accountName, err)
	}
	return key, dir.Write(datadir.AccountKey, []byte(key+"\n"))
}

// processBodyBytes is the default budget of bodies if functions are processes. The gateway's function then gets whole bodies from the
// stand-in for API Gateway, which counts a body and two copies of it: three quarters of a client's quarter have room for its largest.
const processBodyBytes = 3 * apigateway.MaxBodyBytes * 4 * 4 / 3

// bodyBytes returns the memory for all request bodies that this process holds whole.
func (s settings) bodyBytes() int64 {
	if s.functions != "" && s.listener.BufferedBodyBytes == config.DefaultListener().BufferedBodyBytes {
		return processBodyBytes
	}
	return int64(s.listener.BufferedBodyBytes)
}
