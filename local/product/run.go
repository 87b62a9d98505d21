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
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/local/control"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/supervise"
	"github.com/gatewright/gatewright/shared/base/asynclog"
	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/resource/accounts"
)

// runCommand is the command name of a run in the run state.
const runCommand = "run"

// maxLogBytes is the maximum size of a log file of the run. supervise.Log keeps up to two such files.
const maxLogBytes = 16 << 20

// run is a run of the product, with all parts that it has opened so far.
type run struct {
	settings settings
	terminal *terminal.Terminal
	// fail ends the run. Its argument is the cause: an error from which the run cannot recover, or errInterrupted if a
	// launcher has ended.
	fail context.CancelCauseFunc
	// closers close the opened parts. They are in the order of the parts' opening.
	closers []func() error

	dir *datadir.Dir
	// api, gateway, tls and relay are the listeners. tls is nil if the settings disable TLS. relay is nil if the relay is
	// disabled, or served at a name of the domain.
	api, gateway, tls, relay net.Listener
	admin                    *adminServer
	log                      *slog.Logger
	// level is the minimum level of log lines on the terminal.
	level      slog.LevelVar
	data       *resources
	accountKey string // the new key of the account, "" if this run has not created one
	commands   *control.Server
	product    *product
	// tlsServer is nil without TLS.
	tlsServer *tlsListener
	// plainHandler and tlsHandler are the handlers of the listeners gateway and tls.
	plainHandler, tlsHandler http.Handler
	state                    datadir.State
	// tasks contains the tasks that start() has started. They run until the run ends.
	tasks errgroup.Group
}

// runProduct opens all parts in the order of the list below, and serves until parent ends, a launcher of this process
// ends or a fatal error occurs. It then closes the parts in the opposite order. It returns nil unless the start fails,
// a fatal error ends the run or a part cannot be closed.
func runProduct(parent context.Context, s settings) (err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	r := &run{settings: s, terminal: terminal.New(os.Stdout, terminal.SupportsColor(os.Stdout, os.Getenv)), fail: cancel}
	defer takeForeground(launchers())()
	if err := s.rejectUnusedData(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, open := range []func(context.Context) error{
		r.lockDirectory,
		r.clearReadyFile,
		r.listen, // before openData, so that a start that cannot listen does not change the data
		r.openLog,
		r.watchLaunchers,
		r.openData,
		r.openAccount,
		r.listenForCommands,
		r.assemble,
		r.openTLS,
		r.saveState,
		r.startWork,
		r.showReady,
	} {
		if err := open(ctx); err != nil {
			return err
		}
	}
	r.wait(ctx)
	if cause := context.Cause(ctx); cause != nil && parent.Err() == nil && !errors.Is(cause, errInterrupted) {
		return cause
	}
	r.terminal.Step("Stopped. The next start goes on from here.")
	return nil
}

// onClose adds a function that close calls. close calls the last added function first.
func (r *run) onClose(do func()) {
	r.closers = append(r.closers, func() error {
		do()
		return nil
	})
}

// close closes the opened parts in the opposite order of their opening. Each method that opens a part also
// adds the function that closes the part, so that a failed start closes exactly the parts that it has opened.
func (r *run) close() error {
	var err error
	for _, c := range slices.Backward(r.closers) {
		err = errors.Join(err, c())
	}
	return err
}

// lockDirectory opens and locks the data directory.
func (r *run) lockDirectory(ctx context.Context) (err error) {
	if r.dir, err = datadir.Open(r.settings.dataDir); err != nil {
		return err
	}
	l, err := lock(ctx, r.dir, runCommand, func(state datadir.State) error {
		if state.Command != runCommand {
			return nil // a command has the lock for a short time: try again
		}
		return fmt.Errorf("gatewright runs in %s already (process %d%s): stop it first, or name another directory in %s",
			r.settings.dataDir, state.PID, commaBefore(state.API), config.VarDataDir)
	})
	if err != nil {
		return err
	}
	r.onClose(l.Release)
	r.onClose(r.dir.ClearState)
	return nil
}

// clearReadyFile removes the ready file of an earlier run. At
// the end of this run, it removes the ready file of this run.
func (r *run) clearReadyFile(context.Context) error {
	if err := removeReadyFile(r.settings.readyFile); err != nil {
		return err
	}
	r.onClose(func() { _ = removeReadyFile(r.settings.readyFile) })
	return nil
}

// listen opens the listeners. Servers close their listeners too; closing a listener twice is harmless.
func (r *run) listen(ctx context.Context) error {
	for _, o := range []struct {
		to   *net.Listener
		open func(context.Context, settings) (net.Listener, error)
	}{{&r.api, listenAPI}, {&r.gateway, listenGateway}, {&r.tls, listenTLS}, {&r.relay, listenRelay}} {
		l, err := o.open(ctx, r.settings)
		if err != nil {
			return err
		}
		if *o.to = l; l != nil {
			r.onClose(func() { _ = l.Close() })
		}
	}
	admin, err := listenAdmin(ctx, r.settings)
	if err != nil {
		return err
	}
	r.admin = admin
	r.onClose(admin.close)
	return nil
}

// listenAPI opens the listener for the management API.
func listenAPI(ctx context.Context, s settings) (net.Listener, error) {
	return listen.Open(ctx, s.apiAddr, "the management API", config.VarAPIAddr)
}

// listenGateway opens the listener for the gateway.
func listenGateway(ctx context.Context, s settings) (net.Listener, error) {
	return listen.Open(ctx, s.gatewayAddr, "the gateway", config.VarGatewayAddr)
}

// openLog opens the log and writes the first lines.
func (r *run) openLog(ctx context.Context) error {
	r.level.Set(slog.LevelWarn) // until showReady: the requests of waitServing are not shown
	log, closeLog, err := newLogger(r.dir, r.terminal, &r.level, r.admin.countDropped)
	if err != nil {
		return err
	}
	r.log = log
	r.onClose(closeLog)
	log.InfoContext(ctx, "gatewright starts", "version", release.Version(), "dataFormat", embedded.Format, "built",
		release.Toolchain())
	config.LogStandardHTTP(r.settings.listener.StandardHTTP, log)
	return nil
}

// watchLaunchers ends the run when a process that has launched it, such as make, has ended.
func (r *run) watchLaunchers(ctx context.Context) error {
	onLauncherExit(ctx, func(name string) {
		r.terminal.Step("%s is gone, stopping", name)
		r.fail(errInterrupted)
	})
	return nil
}

// openData opens the installation's data, and ends the leases of an earlier process's operations (takeOver).
func (r *run) openData(ctx context.Context) error {
	addrs := listenAddrs{r.api.Addr(), r.gateway.Addr(), addrOf(r.relay)}
	data, err := open(ctx, r.settings, r.dir, r.terminal, r.log, addrs, r.fail)
	if err != nil {
		return err
	}
	r.data = data
	r.closers = append(r.closers, data.close)
	r.admin.attach(data)
	return data.takeOver(ctx, r.log)
}

// openAccount creates the account at the first start, and a key of the account if the key's file contains no valid key.
func (r *run) openAccount(ctx context.Context) (err error) {
	r.accountKey, err = ensureAccount(ctx, r.data.accounts, r.dir, r.log)
	return err
}

// listenForCommands starts the server that runs commands of other processes of this machine. It also blocks requests of
// projects to this server and to the relay's listener.
func (r *run) listenForCommands(ctx context.Context) error {
	commands, err := control.Listen(ctx, r.settings.program.commandRunner(r.data), r.log)
	if err != nil {
		return err
	}
	r.commands = commands
	r.onClose(commands.Close)
	r.data.blockAddresses(addrOf(r.relay), commands.Addr())
	return nil
}

// assemble wires the functions, in this process or in separate processes.
func (r *run) assemble(ctx context.Context) (err error) {
	if r.settings.functions != "" {
		r.product, err = assembleProcesses(ctx, r.data, r.settings.functions, r.api.Addr(), r.gateway.Addr(), r.relay)
	} else {
		r.product, err = assemble(r.data, r.api.Addr()) //nolint:contextcheck // each request has a context of its own
	}
	if err != nil {
		return err
	}
	r.onClose(r.product.close)
	return nil
}

// openTLS opens the certificates, and sets the handlers of the gateway's listeners.
func (r *run) openTLS(ctx context.Context) (err error) {
	if r.tlsServer, err = r.data.newTLSListener(ctx, r.settings, r.product, r.tls, r.log); err != nil {
		return err
	}
	r.plainHandler, r.tlsHandler = r.product.gateway, r.product.gateway
	if r.settings.domain == "" {
		return nil
	}
	r.plainHandler, r.tlsHandler = r.data.handlersByName(r.settings, r.product, r.tlsServer)
	if r.tlsServer != nil {
		r.admin.addCertificate(ctx, apiName(r.settings.domain), r.tlsServer.certificates)
	}
	return nil
}

// saveState writes the addresses of this process for other processes of this machine.
func (r *run) saveState(context.Context) error {
	r.state = datadir.State{
		PID: os.Getpid(), Command: runCommand, StartedOn: time.Now().UTC(),
		API: origin(r.api.Addr()), Gateway: origin(r.gateway.Addr()),
		TLS: r.tlsServer.origin(), Relay: r.data.parts.Config.Relay, Control: r.commands.Endpoint,
	}
	return r.dir.SaveState(r.state)
}

// newLogger opens the log file in the data directory. It returns the run's log, which writes readable lines to the
// terminal and JSON to the file, and a function that closes the file. newLogger calls dropped with the number of lines
// that were not written to the file.
func newLogger(
	dir *datadir.Dir, t *terminal.Terminal, level slog.Leveler, dropped func(lines int),
) (*slog.Logger, func(), error) {
	logs, err := dir.CreateFolder("logs")
	if err != nil {
		return nil, nil, err
	}
	file, err := supervise.OpenLog(filepath.Join(logs, "gatewright.log"), maxLogBytes)
	if err != nil {
		return nil, nil, err
	}
	lines := t.Lines(level)
	var nonBlockingLog *slog.Logger // for messages of asyncFile's own goroutine, which must not wait for itself
	asyncFile := asynclog.New(file, func(lost int) {
		dropped(lost)
		asynclog.LogDropped(nonBlockingLog, lost)
	})
	jsonHandler := asynclog.JSON(asyncFile, slog.LevelDebug)
	nonBlockingLog = slog.New(slog.NewMultiHandler(lines, jsonHandler))
	fileHandler := asynclog.Handler(jsonHandler, asyncFile, asynclog.IsRequest)
	return slog.New(slog.NewMultiHandler(lines, fileHandler)), func() {
		lines.Flush()
		asyncFile.Close()
		_ = file.Close()
	}, nil
}

// commaBefore returns ", " and the address, or "" if the address is "".
func commaBefore(address string) string {
	if address == "" {
		return ""
	}
	return ", " + address
}

// accountName is the name of the account that the first start creates.
const accountName = "demo"

// ensureAccount creates the account if it does not exist, and a key of the account if the key file contains no valid
// key. It returns the key if it has created one. The key cannot be written to the file before it is created, because
// package accounts generates its text. So if the process is killed between these steps, the key is lost, and the next
// start creates another one.
//
// Each start checks the file, so it also replaces a lost file and a file without a valid key. If the account key exists
// but the store does not, package preflight has already refused the start.
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
		log.WarnContext(ctx, "the key in this file was revoked, has expired or is damaged: the file gets another key "+
			"of the account", "file", datadir.AccountKey, "account", accountName)
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
