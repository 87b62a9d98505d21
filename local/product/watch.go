package product

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/metrics"
	"github.com/gatewright/gatewright/shared/service/admin"
)

// watched is what operators ask a run about, at an address of its own; nil where there is none, for which every
// method does nothing.
type watched struct {
	*admin.Watch

	listener net.Listener
	server   *metrics.Server
}

// listenAdmin opens the listener for operators, nil where there is to be none.
func listenAdmin(ctx context.Context, s settings) (*watched, error) {
	if s.adminAddr == config.NoAddr {
		return nil, nil // none is what the setting says
	}
	l, err := listen.On(ctx, s.adminAddr, "operators", config.VarAdminAddr)
	if err != nil {
		return nil, err
	}
	w := &watched{Watch: admin.NewWatch(), listener: l}
	w.server = metrics.NewServer(w.Metrics)
	return w, nil
}

// shown is where the metrics are, as a person is told at the start, and what is to be known of an address that other
// machines may reach.
func (w *watched) shown() (address, note string) {
	if w == nil {
		return "", ""
	}
	if at := w.listener.Addr(); !isLoopback(at.String()) {
		note = "asks for no credential: let no client reach it"
	}
	return origin(w.listener.Addr()) + "/metrics", note
}

// isLoopback reports whether this machine alone reaches an address, host:port. A name that is not localhost may be anybody's.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	at, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && at.Unmap().IsLoopback()
}

// tellPlainAPI warns of a management API that other machines may reach by plain HTTP: a domain has it by HTTPS.
func tellPlainAPI(ctx context.Context, s settings, log *slog.Logger) {
	if s.domain != "" && !isLoopback(s.apiAddr) {
		log.WarnContext(ctx, "other machines may reach the management API by plain HTTP, where whoever is in between reads their keys: have it listen on this machine alone",
			config.VarAPIAddr, s.apiAddr)
	}
}

func (w *watched) close() {
	if w != nil {
		_ = w.listener.Close()
	}
}

// dropped counts lines of the log.
func (w *watched) dropped(lines int) {
	if w != nil {
		w.server.Dropped(lines)
	}
}

// count has the connections of a server counted.
func (w *watched) count(s *listen.Server) {
	if w != nil {
		w.Count(s)
	}
}

// opened has what a run has opened tell what it measures. It is called before anything is made of the parts.
func (w *watched) opened(o *opened) {
	if w == nil {
		return
	}
	o.unasked(w.listener.Addr())
	o.parts.Telemetry.Meter, o.parts.Telemetry.Management = w.Metrics, w.server.Management()
	if engine := o.database.engine; engine != nil {
		engine.Watch(w.server.Committed)
		w.server.Store(engine.Bytes)
	}
	if o.engine() != nil {
		w.server.Checked(func() (endedOn time.Time, damaged int) {
			if last := o.checked.Load(); last != nil {
				return last.EndedOn, last.Damaged
			}
			return time.Time{}, 0
		})
	}
}

// expiryPatience bounds how long who asks for the metrics waits for a certificate that nobody has yet.
const expiryPatience = time.Second

// certified has the end of a name's certificate told, as handshakes get it.
func (w *watched) certified(ctx context.Context, name string, source handshake.Source) {
	if w == nil {
		return
	}
	w.server.Certificate(func() time.Time {
		ctx, cancel := context.WithTimeout(ctx, expiryPatience)
		defer cancel()
		its, err := source.Certificate(ctx, name)
		if err != nil || its == nil || its.Leaf == nil {
			return time.Time{} // which the source has told of in the log
		}
		return its.Leaf.NotAfter
	})
}

// serve answers operators until the end that it gives is called, and is ready until ctx ends.
func (w *watched) serve(ctx context.Context, log *slog.Logger) (end func()) {
	if w == nil {
		return func() {}
	}
	return w.Serve(ctx, w.listener, log)
}
