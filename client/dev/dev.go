// Package dev serves the folder of a project on this machine while somebody works on it: by the real gateway,
// with keys, exact limits and quotas in memory. It needs no account, no network and no installation.
//
// A save is served within a moment. Requests that are under way end on the version that they began with; a version that
// is broken is told, with file, line and column, and the last good one is served on.
//
// What it is not: an installation. It has no management API, and nothing outlives the process but the keys of
// Options.KeyFile. Tunnels, custom domains and certificates of clients are an installation's.
//
// Read dev.go first, then watch.go (what a save does), version.go (how versions follow one another), customers.go (keys and
// what customers have bought), limits.go and requests.go (the line of a request).
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
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/output"
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/pki"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/socket"
)

// DefaultAddr is where projects are served unless somebody says otherwise.
const DefaultAddr = "127.0.0.1:8787"

// DefaultUnits is what a customer has of each meter in a month unless somebody says otherwise.
const DefaultUnits = 1_000_000

// Options say what is served, and to whom it is told.
type Options struct {
	// Folder is the project's: the one that has config/ in it.
	Folder string
	// Addr is where to listen, host:port; port 0 is any that is free, and "" is DefaultAddr.
	Addr string
	// Hosts are the names that requests may be for, beside localhost, names below it and addresses: a page of another
	// site that has its name lead to this machine reads nothing.
	Hosts []string
	// EnvFile has the project's variables, NAME=VALUE on a line each, "" for none. It is watched as the project is. The
	// process's own environment is not read.
	EnvFile string
	// KeyFile keeps the keys of consumers, "" for keys of this run alone. It is made with mode 0600 where it is not there.
	KeyFile string
	// Units is what each customer has of each meter in a calendar month (UTC), 0 for DefaultUnits.
	Units int64
	// Certificates are what routes show to upstreams, by the names that the project has for them.
	Certificates map[string]project.ClientCertificate

	// Out gets a line for each request, for a person. Document, where it is not nil, gets a JSON document of each instead, one at
	// a time.
	Out      io.Writer
	Document func(document []byte) error
	// Err gets everything else that is told.
	Err io.Writer
	// Colour and ErrColour say that what goes to Out and to Err may be coloured.
	Colour, ErrColour bool
	// Ready is called with the address once requests are answered; nil for nobody.
	Ready func(net.Addr)
}

// drainTimeout is how long requests may take to end after Run is told to.
const drainTimeout = 30 * time.Second

// cachedKeys is how many keys' answers are remembered: nobody has as many here.
const cachedKeys = 1024

// A UsageError is an option that cannot be followed.
type UsageError struct{ Reason string }

// Error implements error.
func (e *UsageError) Error() string { return e.Reason }

// server serves the versions of one folder.
type server struct {
	o         Options
	messages  *messages
	access    *slog.Logger
	flush     func() // of lines that are added up
	log       *slog.Logger
	files     *source
	compiler  *project.Compiler
	customers *customers
	config    gateway.Config // of every version
	ids       *ids.Source
	hosts     hosts
	origin    string // where it is served, for a person

	// current is what is served, nil while no version was good; refusal is why then.
	current atomic.Pointer[version]
	refusal atomic.Pointer[string]
	live    live
}

// Run serves a folder until ctx ends, and then what is under way. It answers nil for that, a *UsageError for options
// that can't be followed, and other errors for what the system refuses; what is wrong with a project is told, and no error.
func Run(ctx context.Context, o Options) error {
	s, err := newServer(ctx, o)
	if err != nil {
		return err
	}
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: s, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 128 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug), // of connections, which are their clients' affair
	}
	w := s.begin(ctx) // who connects meanwhile waits
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	watching, stop := context.WithCancel(ctx)
	defer stop()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.run(watching)
	}()
	if o.Ready != nil {
		o.Ready(listener.Addr())
	}
	select {
	case err := <-served:
		stop()
		<-watched
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	<-watched
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	return s.end(ending, server)
}

// end lets what is under way end, and then closes what is left.
func (s *server) end(ctx context.Context, server *http.Server) error {
	defer s.flush()
	s.messages.tell("stopping: requests that are under way have %s to end", drainTimeout)
	upgraded := make(chan struct{})
	go func() {
		defer close(upgraded)
		s.live.endUpgrades(ctx)
	}()
	err := server.Shutdown(ctx)
	<-upgraded
	if errors.Is(err, context.DeadlineExceeded) {
		_ = server.Close()
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
	its, err := folder.Open(ctx, o.Folder)
	if err != nil {
		return nil, &UsageError{err.Error()}
	}
	if err := isProject(o.Folder); err != nil {
		return nil, err
	}
	certificates, err := readCertificates(o.Certificates)
	if err != nil {
		return nil, err
	}
	o.Certificates = certificates
	all := &messages{w: o.Err}
	warnings := slog.New(terminal.New(all, o.ErrColour).LinesAlone(slog.LevelWarn))
	s := &server{
		o: o, messages: all, log: warnings, files: &source{project: its, env: o.EnvFile}, compiler: project.NewCompiler(),
		ids: ids.NewSource(rand.Reader, time.Now), hosts: o.Hosts,
	}
	lines := terminal.New(o.Out, o.Colour).LinesAlone(slog.LevelInfo)
	s.access, s.flush = slog.New(lines), lines.Flush
	if o.Document != nil {
		s.access = slog.New(&documents{write: o.Document})
	}
	if s.customers, err = openCustomers(o, s.ids); err != nil {
		return nil, err
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	counts := newLimits(time.Now)
	s.config = gateway.Config{
		Keys:          policy.NewKeyCache(s.customers, cachedKeys, secret, time.Now),
		Allowances:    counts,
		Subscriptions: s.customers,
		Quotas:        quotas{counts},
		// Upstreams of a project that somebody works on are on this machine, as a rule.
		Upstream: upstream.New(upstream.Options{Guard: upstream.Guard{AllowPrivate: true}}),
		IDs:      s.ids, Now: time.Now, Log: warnings, Access: s.access,
	}
	s.config.Telemetry.Paths = true
	return s, nil
}

// readCertificates refuses what the product would not take as a certificate, and gives the others as it keeps them.
func readCertificates(given map[string]project.ClientCertificate) (map[string]project.ClientCertificate, error) {
	out := make(map[string]project.ClientCertificate, len(given))
	for name, its := range given {
		pair, wrongChain, wrongKey := pki.ReadPair(its.Chain, its.Key, time.Now())
		switch {
		case wrongChain != "":
			return nil, &UsageError{fmt.Sprintf("the certificate %q %s", output.Printable(name), wrongChain)}
		case wrongKey != "":
			return nil, &UsageError{fmt.Sprintf("the private key of the certificate %q %s", output.Printable(name), wrongKey)}
		}
		out[name] = project.ClientCertificate{ID: name, Chain: pair.Chain, Key: pair.Key}
	}
	return out, nil
}

// isProject refuses a folder that nobody can have meant.
func isProject(dir string) error {
	routes, err := filepath.Glob(filepath.Join(escapeGlob(dir), "config", "*.oas.json"))
	if err != nil || len(routes) == 0 {
		return &UsageError{fmt.Sprintf("%s is no project's folder: it has no config/*.oas.json, in which routes are described", output.Printable(dir))}
	}
	return nil
}

// escapeGlob has a folder's name mean itself in a pattern.
func escapeGlob(name string) string {
	if filepath.Separator == '\\' {
		return name // where a backslash divides folders nothing escapes
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

func (s *server) listen(ctx context.Context) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.o.Addr)
	switch {
	case socket.InUse(err):
		return nil, &UsageError{fmt.Sprintf("another program listens on %s: end it, or choose another address, such as --addr 127.0.0.1:0 for any port that is free", s.o.Addr)}
	case err != nil:
		return nil, &UsageError{fmt.Sprintf("%s is no address that can be listened on (%v): write host:port, such as --addr %s", output.Printable(s.o.Addr), reason(err), DefaultAddr)}
	}
	s.origin = "http://" + l.Addr().String()
	if at, err := netip.ParseAddrPort(l.Addr().String()); err == nil {
		if at.Addr().IsUnspecified() {
			s.origin = fmt.Sprintf("http://127.0.0.1:%d", at.Port())
		}
		if !at.Addr().Unmap().IsLoopback() {
			s.messages.tell("warning: other machines may reach %s: keys and limits hold for them, and nothing is encrypted", l.Addr())
		}
	}
	return l, nil
}

// reason is what an error of the network says without the address, which is told already.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

// hosts are the names that requests may be for.
type hosts []string

// served reports whether a request may be for a host, in lower case and without port. An address is what nobody's DNS
// leads to, so that no page of another site can have it in its own address.
func (h hosts) served(host string) bool {
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
