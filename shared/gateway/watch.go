package gateway

import (
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/router"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Calls counts requests. It neither blocks nor fails.
type Calls interface {
	Call(c analytics.Call)
}

// count counts a request that was answered for a deployment, whatever the answer: by its route, where there is one, and the
// gateway's own routes not at all. Status is 0 for one that got no answer. A call of an MCP server's is a request of its own.
func (g *Gateway) count(x *pipeline.Exchange, status int) {
	if g.config.Calls == nil || x.Route == nil || router.IsReserved(x.Path) {
		return
	}
	info := &x.Route.Info
	if status == 0 {
		status = pipeline.StatusClientGone
	}
	call := analytics.Call{
		Deployment: deploymentOf(info), Method: x.Method, Route: info.Path, Status: status, Policy: x.Refused, At: x.Start,
	}
	if x.User != nil {
		call.Consumer = x.User.Sub
	}
	g.config.Calls.Call(call)
}

func deploymentOf(info *pipeline.Info) analytics.Deployment {
	return analytics.Deployment{AccountID: info.Account, Project: info.Project, Environment: info.Environment, Name: info.Deployment}
}

// watched is a request whose end is told: as a line, a span, or both. The zero
// value is one that nobody asks about.
type watched struct {
	span      telemetry.Span
	log       *slog.Logger
	meter     telemetry.Meter
	paths     bool
	table     string // in metrics of faults, "" for none
	coldStart bool
	path      string // as it was asked for: policies may change what goes on
}

// watch begins to look at a request, if anybody wants to know.
func (g *Gateway) watch(r *http.Request, x *pipeline.Exchange) watched {
	o := g.config.Telemetry
	if g.config.Access == nil && o.Tracer == nil && o.Meter == nil {
		return watched{}
	}
	w := watched{log: g.config.Access, meter: o.Meter, paths: o.Paths, table: o.Faults, coldStart: !g.warm.Swap(true), path: x.Path}
	x.Context, w.span = o.Tracer.Start(x.Context, "unrouted", r.Header)
	x.Now = g.config.Now
	return w
}

// end tells what became of the request. Neither the line nor the span holds a
// header, a query, a key, or what a path holds in place of a parameter, unless
// the installation wants to see paths.
func (w watched) end(out *writer, x *pipeline.Exchange) {
	if w.log == nil && w.meter == nil && !w.span.On() {
		return
	}
	now := x.Now()
	latency := now.Sub(x.Start)
	if w.meter != nil {
		w.meter.Request(telemetry.Request{Status: out.status, Cut: out.cut, Latency: latency, Upstream: x.Waited})
	}
	var info pipeline.Info
	if x.Route != nil {
		info = x.Route.Info
	}
	if w.log != nil {
		w.line(out, x, info, now, latency)
	}
	if !w.span.On() {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.Int("http.response.status_code", out.status),
		attribute.String("gatewright.request_id", x.RequestID),
		attribute.Bool("gatewright.cut", out.cut),
		attribute.Bool("gatewright.cold_start", w.coldStart),
	}
	if info.Deployment != "" {
		attributes = append(attributes, attribute.String("gatewright.deployment", info.Deployment))
	}
	if info.Path != "" {
		w.span.Name(info.Method + " " + info.Path)
		attributes = append(attributes,
			attribute.String("http.request.method", x.Method), attribute.String("http.route", info.Path),
			attribute.String("gatewright.operation", info.OperationID), attribute.Float64("gatewright.upstream_ms", telemetry.Milliseconds(x.Waited)))
	}
	w.span.End(out.status >= http.StatusInternalServerError, attributes...)
}

// line writes the request's one line. Causes of failures have lines of their
// own, under the same request id.
func (w watched) line(out *writer, x *pipeline.Exchange, info pipeline.Info, now time.Time, latency time.Duration) {
	h := w.log.Handler()
	if !h.Enabled(x.Context, slog.LevelInfo) {
		return
	}
	// A Logger would look up who calls it, and what time it is once more: neither is told.
	record := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	attributes := make([]slog.Attr, 0, 16)
	attributes = append(attributes,
		slog.String("requestId", x.RequestID), slog.String("deployment", info.Deployment),
		slog.String("operation", info.OperationID), slog.String("route", info.Path),
		slog.String("method", telemetry.Text(x.Method)), slog.Int("status", out.status), slog.Bool("cut", out.cut),
		slog.Float64("latency", telemetry.Milliseconds(latency)),
		slog.Float64("upstreamLatency", telemetry.Milliseconds(x.Waited)), slog.String("policy", x.Refused), slog.Bool("coldStart", w.coldStart))
	if w.span.On() {
		attributes = append(attributes, slog.String("traceId", w.span.TraceID()))
	}
	if out.status >= http.StatusInternalServerError {
		attributes = append(attributes, w.fault(x, now)...)
	}
	if w.paths {
		attributes = append(attributes, slog.String("host", telemetry.Text(credential.Redact(x.Host))), slog.String("path", telemetry.Text(x.Redacted(w.path))))
	}
	record.AddAttrs(attributes...)
	_ = h.Handle(x.Context, record) // as a Logger: a log that takes nothing is no request's failure
}

// fault tells whose fault a 5xx is. The platform counts both alike, and an installation's
// operators can mend the one alone.
func (w watched) fault(x *pipeline.Exchange, now time.Time) []slog.Attr {
	name := telemetry.GatewayFaults
	if x.Theirs {
		name = telemetry.UpstreamFaults
	}
	out := []slog.Attr{slog.Int(name, 1)}
	if w.table != "" {
		out = append(out, slog.String("table", w.table), telemetry.Count(now, name, "table"))
	}
	return out
}
