// Package container runs a long-lived service (package service) as an operating system process: as an ECS task, on a
// machine, or with an emulator of AWS. A service's main calls Start with the service's declaration and a function that
// opens the service from the installation's parts. A program with several commands, such as `gatewright gateway`, calls
// Serve instead.
//
// It differs from package cloud, which is for Lambda functions, in three points. The credentials of a task's role
// expire while the task runs, so they are requested repeatedly. TLS ends in the process. SIGTERM announces the end of
// the process.
//
// The package is not for services without requests. It is not for
// the local process either, which uses package host directly.
//
// Read container.go first, then certificate.go for TLS, expiry.go, listeners.go, and task.go for the data that ECS
// provides to a task. The rules of ECS are in "Amazon ECS task IAM role" and "Amazon ECS task metadata endpoint version
// 4" (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/).
package container

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	_ "golang.org/x/crypto/x509roots/fallback" // an image that contains only the binary has no root certificates

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/gctuning"
	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/cloud"
	"github.com/gatewright/gatewright/shared/runtime/service"
	"github.com/gatewright/gatewright/shared/runtime/service/admin"
	"github.com/gatewright/gatewright/shared/runtime/service/host"
)

// Open opens a service's process with an installation's parts. address is the address at which the service's
// other copies reach this process, as an absolute URL without a path. It is "" if there are no copies.
type Open func(p installation.Parts, address string) (service.Process, error)

// Start is the main of a service, as cloud.Start is the main of a function. It runs the service until SIGTERM
// or Ctrl-C, and then drains it. If an error occurs, Start logs it and ends the process with status 1.
func Start(ctx context.Context, s service.Service, open Open) {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, os.Interrupt)
	err := Serve(ctx, s, open)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

// Serve runs a service until ctx ends, and then drains it. It also logs the error that it returns, so its caller
// only has to exit with a status other than 0.
func Serve(ctx context.Context, s service.Service, open Open) error {
	err := run(ctx, s, open, os.Environ(), os.Getenv, os.Stdout)
	if err != nil {
		slog.New(slog.NewJSONHandler(os.Stdout, nil)).ErrorContext(ctx, "the service ends", "service", s.Name, "error", err)
	}
	return err
}

func run(
	ctx context.Context, s service.Service, open Open, environ []string, getenv func(string) string, log io.Writer,
) error {
	if err := config.CheckNames(environ, false); err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	handler, flush := newLogHandler(log)
	defer flush()
	parts, err := cloud.OpenAs("gatewright-"+s.Name, credentials(agentOrigin, getenv), getenv, handler)
	if err != nil {
		return err
	}
	cert, err := newCertificate(s, parts.Config, getenv)
	if err != nil {
		return err
	}
	settings, err := listenerSettings(getenv)
	if err != nil {
		return fmt.Errorf("read the environment: %w", err)
	}
	address, err := peerAddress(ctx, s, getenv)
	if err != nil {
		return err
	}
	announce := s.Announce
	if announce > 0 {
		if announce, err = config.AnnounceFromEnvironment(getenv, announce); err != nil {
			return fmt.Errorf("read the environment: %w", err)
		}
	}
	ls, err := openListeners(ctx, s, getenv)
	if err != nil {
		return err
	}
	defer ls.close()
	monitor := admin.NewMonitor()
	if ls.admin != nil {
		parts.Telemetry.Meter = monitor.Metrics
		// unlike the setting, the listener's address has the actual port if port 0 is set
		parts.BlockedAddresses = append(parts.BlockedAddresses, ls.admin.Addr().String())
	}
	process, err := open(parts, address)
	if err != nil {
		return err
	}
	tlsConfig, misdirected, err := cert.secure(ctx, process, parts.Log)
	if err != nil {
		return err
	}
	if parts.Telemetry.Metrics {
		go cert.reportExpiry(ctx, parts.Log, telemetry.CertificateDimension(parts.Config.Table, s.Name))
	}
	config.LogStandardHTTP(settings.StandardHTTP, parts.Log)
	o := listen.Options{
		Settings: settings, Budget: listen.NewBudget(settings.Connections),
		Bodies: bodies.New(int64(settings.BufferedBodyBytes)), PathBytes: s.PathBytes, IDs: parts.IDs, Log: parts.Log,
		TLS: tlsConfig, Misdirected: misdirected,
	}
	endpoints := []host.Endpoint{{Listener: ls.main, Options: o, OnCreated: monitor.AddServer}}
	parts.Log.InfoContext(ctx, "the service listens", "service", s.Name, "address", ls.main.Addr().String(), "copy",
		address, "tls", tlsConfig != nil,
		"version", release.Version(), "built", release.Toolchain())
	if ls.plain != nil {
		o.TLS = nil
		endpoints = append(endpoints, host.Endpoint{Listener: ls.plain, Options: o, OnCreated: monitor.AddServer})
		parts.Log.InfoContext(ctx, "the service listens", "service", s.Name, "address", ls.plain.Addr().String(), "copy",
			address, "tls", false)
	}
	if ls.admin != nil {
		parts.Log.InfoContext(ctx, "operators ask", "service", s.Name, "admin", ls.admin.Addr().String())
		defer monitor.Serve(ctx, ls.admin, parts.Log)()
	}
	go gctuning.Tune(ctx)
	err = host.ServeAll(ctx, process, host.ShutdownTimes{Announce: announce, Drain: s.Drain}, endpoints...)
	parts.Telemetry.Tracer.Close(context.WithoutCancel(ctx))
	return err
}

// listenerSettings returns the limits of a listener behind a load balancer. Many clients connect from the balancer's
// few addresses. So connections per address are not limited, unless the limit is set or the balancer sends the clients'
// addresses (PROXY protocol).
func listenerSettings(getenv func(string) string) (config.Listener, error) {
	settings, err := config.ListenerFromEnvironment(getenv)
	if getenv(config.VarConnectionsPerAddress) == "" && !settings.ProxyProtocol {
		settings.ConnectionsPerAddress = 0
	}
	return settings, err
}
