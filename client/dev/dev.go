// Package dev serves a project's folder on this machine during development. It runs the real gateway, with keys, exact
// rate limits and quotas in memory. It needs no account, no network and no installation.
//
// A saved change is served within a moment. Requests in flight are completed by the version that was served when they
// began. If a version has errors, they are reported with file, line and column, and the last version without errors is
// still served.
//
// It is not an installation: it has no management API, and only the keys of Options.KeyFile outlive the process.
// Tunnels, custom domains and client certificates of callers need an installation.
//
// Read dev.go first, then watch.go (what happens after a save), version.go (how versions replace one another),
// customers.go (keys and subscriptions), limits.go, and requests.go (the log line of a request).
package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/base/pki"
	"github.com/gatewright/gatewright/shared/base/socket"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// DefaultAddr is the default address on which projects are served.
const DefaultAddr = "127.0.0.1:8787"

// DefaultUnits is how many units of each meter a customer can use per month by default.
const DefaultUnits = 1_000_000

// Options are the options of Run.
type Options struct {
	// Folder is the project's folder, which contains config/.
	Folder string
	// Addr is the address to listen on, host:port. Port 0 means any free port, and "" means DefaultAddr.
	Addr string
	// Hosts are additional host names that requests may have. localhost, names that end in .localhost, and IP addresses
	// are always allowed. All other hosts are refused: otherwise another site could let its own name resolve to this
	// machine, and its page could read the responses.
	Hosts []string
	// EnvFile is a file with the project's variables, NAME=VALUE on a line each. "" means no file. Run detects changes
	// of this file, too. The process's own environment is not read.
	EnvFile string
	// KeyFile is the file that stores the keys of consumers. If the file is missing, it is created with mode 0600 as
	// soon as there is a key. With "", keys are not stored and each run creates new ones.
	KeyFile string
	// Units is how many units of each meter a customer can use in a calendar month (UTC), 0 for DefaultUnits.
	Units int64
	// Certificates are the client certificates for upstreams, by the names that the project uses.
	Certificates map[string]project.ClientCertificate

	// Out receives a line for people for each request. If Document is not nil, Document is called instead with a JSON
	// document for each request. Calls do not overlap.
	Out      io.Writer
	Document func(document []byte) error
	// Err receives all other messages.
	Err io.Writer
	// Color and ErrColor allow colors on Out and Err.
	Color, ErrColor bool
	// Ready is called with the server's address when the server accepts requests. It may be nil.
	Ready func(net.Addr)
}

// drainTimeout is the maximum time that a shutdown waits for the requests in flight.
const drainTimeout = 30 * time.Second

// keyCacheSize is the maximum number of keys whose verification is cached. Projects in development have fewer keys.
const keyCacheSize = 1024

// UsageError says that an option is invalid.
type UsageError struct{ Reason string }

// Error implements error.
func (e *UsageError) Error() string { return e.Reason }

// server serves the versions of one project.
type server struct {
	options   Options
	messages  *messages
	accessLog *slog.Logger
	flush     func() // writes the summary of aggregated log lines
	log       *slog.Logger
	files     *source
	compiler  *project.Compiler
	customers *customers
	config    gateway.Config // for the gateways of all versions
	ids       *ids.Source
	hosts     hosts
	origin    string // the server's URL in messages

	// current is the version that is served, nil before the first version without errors. While it is nil,
	// unavailableReason is the message for clients, nil while the first version is being built.
	current           atomic.Pointer[version]
	unavailableReason atomic.Pointer[string]
	inFlight          inFlightVersions
}

// Run serves a folder until ctx ends. It then waits for the requests in flight. It returns nil if they end within
// drainTimeout, and an error otherwise. It returns a *UsageError for invalid options, and other errors for failures of
// the operating system. Errors in a project are reported, and Run continues.
func Run(ctx context.Context, o Options) error {
	s, err := newServer(ctx, o)
	if err != nil {
		return err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	httpServer := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // clients cause most errors of connections
	}
	w := s.newWatcher(ctx) // new connections wait until the first version is built
	serveErr := make(chan error, 1)
	go func() { serveErr <- httpServer.Serve(listener) }()
	watchCtx, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	watchDone := make(chan struct{})
	go func() {
		defer close(watchDone)
		w.run(watchCtx)
	}()
	if o.Ready != nil {
		o.Ready(listener.Addr())
	}
	select {
	case err := <-serveErr:
		stopWatching()
		<-watchDone
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	<-watchDone
	drainCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return s.shutDown(drainCtx, httpServer)
}

// shutDown waits for the requests in flight until ctx ends. If some of them have not ended then, it closes their
// connections and returns an error.
func (s *server) shutDown(ctx context.Context, httpServer *http.Server) error {
	defer s.flush()
	s.messages.printf("stopping: requests that are under way have %s to end", drainTimeout)
	upgradesClosed := make(chan struct{})
	go func() {
		defer close(upgradesClosed)
		s.inFlight.endUpgrades(ctx)
	}()
	err := httpServer.Shutdown(ctx)
	<-upgradesClosed
	if errors.Is(err, context.DeadlineExceeded) {
		_ = httpServer.Close()
		return fmt.Errorf("some requests had not ended after %s, and were cut off", drainTimeout)
	}
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

func newServer(ctx context.Context, o Options) (*server, error) {
	if o.Addr == "" {
		o.Addr = DefaultAddr
	}
	if o.Units == 0 {
		o.Units = DefaultUnits
	}
	if o.Units < 0 {
		return nil, &UsageError{"the units of a meter are a positive number"}
	}
	projectFolder, err := folder.Open(ctx, o.Folder)
	if err != nil {
		return nil, &UsageError{err.Error()}
	}
	if err := checkProject(o.Folder); err != nil {
		return nil, err
	}
	certificates, err := readCertificates(o.Certificates)
	if err != nil {
		return nil, err
	}
	o.Certificates = certificates
	stderr := &messages{w: o.Err}
	warningLog := slog.New(terminal.New(stderr, o.ErrColor).LinesWithoutFile(slog.LevelWarn))
	s := &server{
		options: o, messages: stderr, log: warningLog, files: &source{project: projectFolder, envFile: o.EnvFile},
		compiler: project.NewCompiler(),
		ids:      ids.NewSource(rand.Reader, time.Now), hosts: o.Hosts,
	}
	lines := terminal.New(o.Out, o.Color).LinesWithoutFile(slog.LevelInfo)
	s.accessLog, s.flush = slog.New(lines), lines.Flush
	if o.Document != nil {
		s.accessLog = slog.New(&documents{write: o.Document})
	}
	if s.customers, err = openCustomers(o, s.ids); err != nil {
		return nil, err
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	usage := newLimits(time.Now)
	s.config = gateway.Config{
		Keys:          policy.NewKeyCache(s.customers, keyCacheSize, secret, time.Now),
		Allowances:    usage,
		Subscriptions: s.customers,
		Quotas:        quotas{usage},
		// Upstreams of a project in development usually are on this machine.
		Upstream: upstream.New(upstream.Options{Guard: upstream.Guard{AllowPrivate: true}}),
		IDs:      s.ids, Now: time.Now, Log: warningLog, Access: s.accessLog,
	}
	s.config.Telemetry.LogPaths = true
	return s, nil
}

// readCertificates checks certificates as the product does, and returns them in normalized form.
func readCertificates(certs map[string]project.ClientCertificate) (map[string]project.ClientCertificate, error) {
	out := make(map[string]project.ClientCertificate, len(certs))
	for name, cert := range certs {
		pair, chainProblem, keyProblem := pki.ReadPair(cert.Chain, cert.Key, time.Now())
		switch {
		case chainProblem != "":
			return nil, &UsageError{fmt.Sprintf("the certificate %q %s", output.Printable(name), chainProblem)}
		case keyProblem != "":
			return nil, &UsageError{fmt.Sprintf("the private key of the certificate %q %s", output.Printable(name), keyProblem)}
		}
		out[name] = project.ClientCertificate{ID: name, Chain: pair.Chain, Key: pair.Key}
	}
	return out, nil
}

// checkProject returns an error for a folder without a project configuration.
func checkProject(dir string) error {
	const config = "config"
	entries, err := os.ReadDir(filepath.Join(dir, config))
	if err != nil || !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return project.IsRoutesFile(path.Join(config, e.Name()))
	}) {
		return &UsageError{
			fmt.Sprintf("%s is no project's folder: it has no config/*.oas.json or config/*.oas.yaml, which describe the "+
				"routes", output.Printable(dir)),
		}
	}
	return nil
}

// listen listens on Options.Addr and sets origin. It warns if other machines can connect.
func (s *server) listen(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.options.Addr)
	switch {
	case socket.InUse(err):
		return nil, &UsageError{fmt.Sprintf("another program listens on %s: end it, or choose another address, such as "+
			"--addr 127.0.0.1:0 for any port that is free", s.options.Addr)}
	case err != nil:
		return nil, &UsageError{fmt.Sprintf("%s is no address that can be listened on (%v): write host:port, such "+
			"as --addr %s", output.Printable(s.options.Addr), causeOf(err), DefaultAddr)}
	}
	s.origin = "http://" + l.Addr().String()
	if addrPort, err := netip.ParseAddrPort(l.Addr().String()); err == nil {
		if addrPort.Addr().IsUnspecified() {
			s.origin = fmt.Sprintf("http://127.0.0.1:%d", addrPort.Port())
		}
		if !addrPort.Addr().Unmap().IsLoopback() {
			s.messages.printf("warning: other machines may reach %s: keys and limits hold for them, and nothing is encrypted",
				l.Addr())
		}
	}
	return l, nil
}

// causeOf returns the cause of a network error without the address, because the surrounding message contains the
// address.
func causeOf(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// hosts are host names that requests may have, in addition to localhost and IP addresses.
type hosts []string

// allows reports whether a request may have this host. host is in lower case and without a port. IP addresses are
// always allowed: if another site lets its name resolve to this machine, the requests of its pages have this name as
// their host, and not an IP address.
func (h hosts) allows(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	for _, name := range h {
		if framing.HostName(name) == host {
			return true
		}
	}
	return false
}
