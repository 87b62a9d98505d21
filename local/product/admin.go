package product

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/runtime/metrics"
	"github.com/gatewright/gatewright/shared/runtime/service/admin"
)

// adminServer serves operators at a separate address. It is nil if the
// settings have no such address. The methods of a nil adminServer do nothing.
type adminServer struct {
	*admin.Monitor

	listener net.Listener
	server   *metrics.ServerMetrics
}

// listenAdmin opens the listener for operators. It returns nil if the settings have none.
func listenAdmin(ctx context.Context, s settings) (*adminServer, error) {
	if s.adminAddr == config.NoAddr {
		return nil, nil // the settings disable it
	}
	l, err := listen.Open(ctx, s.adminAddr, "operators", config.VarAdminAddr)
	if err != nil {
		return nil, err
	}
	a := &adminServer{Monitor: admin.NewMonitor(), listener: l}
	a.server = metrics.NewServer(a.Metrics)
	return a, nil
}

// metricsAddress returns the address of the metrics to show to the user, and a warning if other machines can reach it.
func (a *adminServer) metricsAddress() (address, note string) {
	if a == nil {
		return "", ""
	}
	if addr := a.listener.Addr(); !isLoopback(addr.String()) {
		note = "asks for no credential: let no client reach it"
	}
	return origin(a.listener.Addr()) + "/metrics", note
}

// isLoopback reports whether only this machine can reach an address, host:port. It
// returns false for host names other than localhost, which can belong to any machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// warnPlainAPI warns if a domain is set, so that clients use HTTPS,
// but other machines can also reach the management API by plain HTTP.
func warnPlainAPI(ctx context.Context, s settings, log *slog.Logger) {
	if s.domain != "" && !isLoopback(s.apiAddr) {
		log.WarnContext(ctx, "other machines may reach the management API by plain HTTP, where whoever is in between reads "+
			"their keys: have it listen on this machine alone",
			config.VarAPIAddr, s.apiAddr)
	}
}

func (a *adminServer) close() {
	if a != nil {
		_ = a.listener.Close()
	}
}

// countDropped counts log lines that were dropped.
func (a *adminServer) countDropped(lines int) {
	if a != nil {
		a.server.AddDroppedLines(lines)
	}
}

// countConnections counts the connections of a server.
func (a *adminServer) countConnections(s *listen.Server) {
	if a != nil {
		a.AddServer(s)
	}
}

// attach connects the metrics to the opened resources of a run. Call it before the resources are used.
func (a *adminServer) attach(res *resources) {
	if a == nil {
		return
	}
	res.blockAddresses(a.listener.Addr())
	res.parts.Telemetry.Meter, res.parts.Telemetry.Management = a.Metrics, a.server.Management()
	if engine := res.database.engine; engine != nil {
		engine.Watch(a.server.ObserveCommit)
		a.server.RegisterStore(engine.Bytes)
	}
	if res.engine() != nil {
		a.server.RegisterCheck(func() (endedOn time.Time, damaged int) {
			if last := res.lastCheck.Load(); last != nil {
				return last.EndedOn, last.Damaged
			}
			return time.Time{}, 0
		})
	}
}

// expiryTimeout is the maximum time for which a request for the metrics waits for a missing certificate.
const expiryTimeout = time.Second

// addCertificate adds the expiry of a name's certificate to the metrics. source is the source that handshakes use.
func (a *adminServer) addCertificate(ctx context.Context, name string, source handshake.Source) {
	if a == nil {
		return
	}
	a.server.RegisterCertificate(func() time.Time {
		ctx, cancel := context.WithTimeout(ctx, expiryTimeout)
		defer cancel()
		cert, err := source.Certificate(ctx, name)
		if err != nil || cert == nil || cert.Leaf == nil {
			return time.Time{} // the source has logged the error
		}
		return cert.Leaf.NotAfter
	})
}

// serve serves operators until stop is called. The readiness check succeeds until ctx ends.
func (a *adminServer) serve(ctx context.Context, log *slog.Logger) (stop func()) {
	if a == nil {
		return func() {}
	}
	return a.Serve(ctx, a.listener, log)
}
