package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gatewright/gatewright/shared/base/disk"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/base/webroots"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/runtime/commandline"
)

// varRelay is the environment variable with the relay's address, an alternative to the flag.
const varRelay = "TUNNEL_RELAY"

// These are the limits of the flags.
const (
	minConnections, maxConnections = 2, 4
	defaultDrain, maxDrain         = 25 * time.Second, time.Hour
	maxCABytes                     = 1 << 20
)

// connectFlags has the values of the flags of connect.
type connectFlags struct {
	relay, tokenFile, caFile, logFormat string
	connections                         int
	webSocket, allowPlainHTTP           bool
	drain                               time.Duration
}

// connectName is the name of the only command that a signal ends normally, and not as interrupted.
const connectName = "connect"

func connectCommand() *cobra.Command {
	var f connectFlags
	c := &cobra.Command{
		Use:   connectName + " --relay URL",
		Short: "Connect a tunnel's services to a relay, until it is stopped",
		Long: `Connect a tunnel's services to a relay, until it is stopped. It dials the relay and listens nowhere: no port of this
network is open. The tunnel's configuration says which services there are, and who may call them.

The tunnel's token is in the variable ` + varToken + `, or in the file of --token-file, which is read anew for each
connection. It is never a word of the command line, where all users of the machine see it.

A connection that is lost is dialled again. Ctrl-C or SIGTERM ends it: it takes no new requests, and finishes those
under way for as long as --drain-timeout. A second one ends it at once.

Exit codes:
  0  it was stopped, and no request was cut
  1  it was stopped with requests under way, or anything else went wrong
  2  the command line, the environment or a file that it names can't be followed
  3  the relay refuses the token: it is no tunnel's, or it was rotated`,
		Example: `  ` + varToken + `=… gatewright tunnel connect --relay http://` + defaultRelayAddr + `
  gatewright tunnel connect --relay https://relay.example.com --token-file /run/secrets/tunnel-token`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := f.options(args, os.Getenv)
			if err != nil {
				return commandline.Usage(err)
			}
			return connect(cmd.Context(), o, f, os.Stdout)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.relay, "relay", "", "the relay's address, https://host[:port]; "+varRelay+" without it")
	flags.StringVar(&f.tokenFile, "token-file", "", "the file with the tunnel's token; "+varToken+" without it")
	flags.IntVar(&f.connections, "connections", minConnections,
		"how many connections are kept open, 2 to 4: a relay that goes takes its own along")
	flags.BoolVar(&f.webSocket, "websocket", false, "connect by WebSocket, for proxies that let nothing else through")
	flags.StringVar(&f.caFile, "ca-file", "",
		"certificates (PEM) of the authorities that the relay's may be of, instead of the system's")
	flags.BoolVar(&f.allowPlainHTTP, "allow-plain-http", false,
		"take an http address of another machine too: whoever is in between reads the token and all requests")
	flags.DurationVar(&f.drain, "drain-timeout", defaultDrain, "how long requests under way may take at the end")
	flags.StringVar(&f.logFormat, "log-format", "text", "text for people, json for machines")
	return c
}

// defaultRelayAddr is the address of the relay that `make run` starts on this machine.
const defaultRelayAddr = "127.0.0.1:9003"

// options returns the options of the agent that the flags describe. The error names every invalid flag, and no value
// that may be a secret.
func (f connectFlags) options(args []string, getenv func(string) string) (tunnel.AgentOptions, error) {
	o := tunnel.AgentOptions{Connections: f.connections, WebSocket: f.webSocket}
	var errs []error
	addErr := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(args) > 0 {
		addErr(fmt.Errorf("it takes nothing but flags. A token belongs into %s or --token-file: rotate it if it was typed "+
			"here, where all users of this machine see it", varToken))
	}
	var err error
	o.Relay, err = f.relayURL(getenv)
	addErr(err)
	source, err := newTokenSource(f.tokenFile, getenv)
	addErr(err)
	o.Token = source.read
	if f.connections < minConnections || f.connections > maxConnections {
		addErr(fmt.Errorf("--connections is no number from %d to %d", minConnections, maxConnections))
	}
	if f.drain < 0 || f.drain > maxDrain {
		addErr(errors.New("--drain-timeout is no time from 0s to 1h"))
	}
	if f.logFormat != "text" && f.logFormat != "json" {
		addErr(errors.New("--log-format is neither text nor json"))
	}
	o.TLS, err = f.tlsConfig()
	addErr(err)
	return o, errors.Join(errs...)
}

// relayURL parses the relay's address. The scheme must be https, because the agent sends its token there, except for a
// relay on this machine and with --allow-plain-http.
func (f connectFlags) relayURL(getenv func(string) string) (*url.URL, error) {
	text, name := f.relay, "--relay"
	if text == "" {
		text, name = getenv(varRelay), varRelay
	}
	if text == "" {
		return nil, fmt.Errorf("there is no relay: name its address with --relay, such as https://relay.example.com, or in "+
			"%s. With make run it is http://%s", varRelay, defaultRelayAddr)
	}
	u, err := url.Parse(text)
	switch {
	case !strings.Contains(text, "://"):
		return nil, fmt.Errorf("%s has no https:// in front of the host: write an address such as "+
			"https://relay.example.com, or with make run http://%s", name, defaultRelayAddr)
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http", u.User != nil, u.RawQuery != "",
		u.Fragment != "", !isPort(u.Port()):
		return nil, fmt.Errorf("%s is no relay's address: write one such as https://relay.example.com, without user, query "+
			"and fragment", name)
	case u.Scheme == "http" && !f.allowPlainHTTP && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("%s is an http address of another machine: whoever is in between would read the token and "+
			"all requests. Write https, or add --allow-plain-http", name)
	}
	return u, nil
}

// isPort reports whether text is a valid port, or "", which means the default port of the scheme.
func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && n > 0
}

// isLoopback reports whether a host is this machine, without using the DNS.
func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// tlsConfig returns a TLS configuration with the certificate authorities of --ca-file, nil without that flag.
func (f connectFlags) tlsConfig() (*tls.Config, error) {
	if f.caFile == "" {
		return nil, nil
	}
	file, err := os.Open(f.caFile)
	if err != nil {
		return nil, fmt.Errorf("--ca-file %s can't be read: %w", f.caFile, disk.Cause(err))
	}
	defer func() { _ = file.Close() }()
	text, err := disk.ReadAtMost(file, maxCABytes)
	if err != nil {
		return nil, fmt.Errorf("--ca-file %s can't be read: %w", f.caFile, disk.Cause(err))
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--ca-file %s has no certificate in PEM (-----BEGIN CERTIFICATE-----)", f.caFile)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// connect runs an agent until ctx ends or the relay refuses its token while no connection is open. It writes the
// agent's messages to out.
func connect(ctx context.Context, o tunnel.AgentOptions, f connectFlags, out *os.File) error {
	var agentLevel slog.LevelVar // the level of the agent's own messages; progress has another one
	agentLevel.Set(slog.LevelWarn)
	p := &progress{useJSON: f.logFormat == "json", relay: printable(o.Relay.Host), total: o.Connections}
	if p.useJSON {
		p.log = slog.New(slog.NewJSONHandler(out, nil))
		o.Log = slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: &agentLevel}))
	} else {
		t := terminal.New(out, terminal.SupportsColor(out, os.Getenv))
		p.log = slog.New(t.Lines(slog.LevelInfo))
		o.Log = slog.New(t.Lines(&agentLevel))
	}
	source := tokenSource{file: f.tokenFile}
	p.report(ctx, slog.LevelInfo, "connecting", fmt.Sprintf("connecting to %s with the token in %s; Ctrl-C ends it",
		o.Relay.Redacted(), source),
		slog.String("relay", p.relay), slog.String("token", source.String()), slog.Int("of", p.total),
		slog.Bool("websocket", o.WebSocket))
	if source.isExposed() {
		p.report(ctx, slog.LevelWarn, "token exposed", "other users of this machine may read the token in "+
			source.file+": chmod 600 keeps them out", slog.String("token", source.file))
	}
	o.Notify = func(open int) { p.connectionsChanged(ctx, open) }
	o.OnFailure = func(err error, attempt int, wait time.Duration) { p.attemptFailed(ctx, err, attempt, wait) }
	webroots.InstallFallback() // an image that contains only the binary has no root certificates
	logged := make(chan struct{})
	unregister := context.AfterFunc(ctx, func() {
		defer close(logged)
		p.report(ctx, slog.LevelInfo, "stopping", "stopping: it takes no new requests",
			slog.Float64("drainSeconds", f.drain.Seconds()))
	})
	err := tunnel.NewAgent(o).Run(ctx, f.drain)
	if !unregister() {
		<-logged // the agent may end before this message is written
	}
	if errors.Is(err, errStopped) && !errors.Is(err, tunnel.ErrAborted) {
		p.report(ctx, slog.LevelInfo, "stopped", "stopped")
	}
	return err
}
