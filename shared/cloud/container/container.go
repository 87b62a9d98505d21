// Package container runs a long-lived service (package service) as a process of its
// own: a task of ECS, a process on a machine, or one beside an emulator of AWS. A service's main is
// Start with its declaration and what it makes of the installation's parts; a command among others, as
// `gatewright gateway` is, calls Serve.
//
// It differs from package cloud, which is for functions, in three things: the
// credentials of a task's role change while it runs, so that they are asked for again and
// again; its TLS ends here; and it is told before it is ended, by SIGTERM.
//
// What it is not: for services that take no requests, or for the local process, which
// runs services within itself (package host).
//
// Read container.go first, then certificate.go for its TLS, expiry.go, listeners.go, and task.go for what the platform says of a task. The
// platform's rules are those of "Amazon ECS task IAM role" and "Amazon ECS task metadata
// endpoint version 4" (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/).
package container

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // an image with nothing but the binary has no roots

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/cloud"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/garbage"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/release"
	"github.com/gatewright/gatewright/shared/service"
	"github.com/gatewright/gatewright/shared/service/admin"
	"github.com/gatewright/gatewright/shared/service/host"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Open makes a service's process of an installation's parts. address is where its other
// copies reach it, as an absolute URL without a path, "" where there are none.
type Open func(p installation.Parts, address string) (service.Process, error)

// Start is a service's main, as cloud.Start is a function's: it runs the service until the process is told to end, by
// SIGTERM or Ctrl-C, and drains it then. What goes wrong is in the log, and the process ends with the status 1.
func Start(ctx context.Context, s service.Service, open Open) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	err := Serve(ctx, s, open)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

// Serve runs a service until ctx ends, and drains it then. What goes wrong is logged too, so that who calls it has
// only to end with another status than 0.
func Serve(ctx context.Context, s service.Service, open Open) error {
	err := run(ctx, s, open, os.Environ(), os.Getenv, os.Stdout)
	if err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).ErrorContext(ctx, "the service ends", "service", s.Name, "error", err)
	}
	return err
}

func run(ctx context.Context, s service.Service, open Open, environ []string, getenv func(string) string, log io.Writer) error {
	if err := config.CheckNames(environ, false); err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	lines, written := logOf(log)
	defer written()
	parts, err := cloud.OpenAs("gatewright-"+s.Name, credentials(agentOrigin, getenv), getenv, lines)
	if err != nil {
		return err
	}
	own, err := certificateOf(s, parts.Config, getenv)
	if err != nil {
		return err
	}
	settings, err := settingsOf(getenv)
	if err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	address, err := addressOf(ctx, s, getenv)
	if err != nil {
		return err
	}
	announce := s.Announce
	if announce > 0 {
		if announce, err = config.AnnounceFromEnvironment(getenv, announce); err != nil {
			return fmt.Errorf("read the environment: %w", err)
		}
	}
	all, err := listenersOf(ctx, s, getenv)
	if err != nil {
		return err
	}
	defer all.close()
	watched := admin.NewWatch()
	if all.admin != nil {
		parts.Telemetry.Meter = watched.Metrics
		parts.Unasked = append(parts.Unasked, all.admin.Addr().String()) // which has a port where the setting has 0
	}
	process, err := open(parts, address)
	if err != nil {
		return err
	}
	secure, misdirected, err := own.secure(ctx, process, parts.Log)
	if err != nil {
		return err
	}
	if parts.Telemetry.Metrics {
		go own.reportExpiry(ctx, parts.Log, telemetry.CertificateOf(parts.Config.Table, s.Name))
	}
	config.LogStandardHTTP(settings.StandardHTTP, parts.Log)
	o := listen.Options{Settings: settings, Budget: listen.NewBudget(settings.Connections), Bodies: bodies.New(int64(settings.BufferedBodyBytes)), PathBytes: s.PathBytes, IDs: parts.IDs, Log: parts.Log, TLS: secure, Misdirected: misdirected}
	at := []host.At{{Listener: all.tls, Options: o, Made: watched.Count}}
	parts.Log.InfoContext(ctx, "the service listens", "service", s.Name, "address", all.tls.Addr().String(), "copy", address, "tls", secure != nil,
		"version", release.Version(), "built", release.Built())
	if all.plain != nil {
		o.TLS = nil
		at = append(at, host.At{Listener: all.plain, Options: o, Made: watched.Count})
		parts.Log.InfoContext(ctx, "the service listens", "service", s.Name, "address", all.plain.Addr().String(), "copy", address, "tls", false)
	}
	if all.admin != nil {
		parts.Log.InfoContext(ctx, "operators ask", "service", s.Name, "admin", all.admin.Addr().String())
		defer watched.Serve(ctx, all.admin, parts.Log)()
	}
	go garbage.Keep(ctx)
	err = host.ServeAt(ctx, process, host.Times{Announce: announce, Drain: s.Drain}, at...)
	parts.Telemetry.Tracer.Close(context.WithoutCancel(ctx))
	return err
}

// settingsOf are the bounds of a listener whose clients come by a load balancer: its
// addresses are many clients', so that none is bounded unless that is asked for, or the
// balancer says whose they are.
func settingsOf(getenv func(string) string) (config.Listener, error) {
	settings, err := config.ListenerFromEnvironment(getenv)
	if getenv(config.VarConnectionsPerAddress) == "" && !settings.ProxyProtocol {
		settings.ConnectionsPerAddress = 0
	}
	return settings, err
}
