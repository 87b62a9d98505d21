package gateway

import (
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gatewright/gatewright/shared/base/telemetry"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/router"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// Calls counts requests. Its method does not block, and reports no error.
type Calls interface {
	Call(c analytics.Call)
}

// count counts a completed request of a deployment, even if the request matches no route. It
// does not count requests to the gateway's own routes. If status is 0, no response was sent, and
// the request counts with the status 499. A call through an MCP server counts as a separate request.
func (g *Gateway) count(x *pipeline.Exchange, status int) {
	if g.config.Calls == nil || x.Route == nil || router.IsReserved(x.Path) {
		return
	}
	info := &x.Route.Info
	if status == 0 {
		status = pipeline.StatusClientGone
	}
	call := analytics.Call{
		Deployment: deploymentOf(info), Method: x.Method, Route: info.Path, Status: status, Policy: x.RefusedBy, At: x.Start,
	}
	if x.User != nil {
		call.Consumer = x.User.Sub
	}
	g.config.Calls.Call(call)
}

func deploymentOf(info *pipeline.Info) analytics.Deployment {
	return analytics.Deployment{
		AccountID: info.Account, Project: info.Project, Environment: info.Environment,
		Name: info.Deployment,
	}
}

// observation has the values that are recorded when a request arrives and reported
// when the request has ended. The zero value is for a gateway that reports nothing.
type observation struct {
	span      telemetry.Span
	coldStart bool
	path      string // the path that readPath has set
}

// observe sets the request's observation and the exchange's clock if the gateway logs, measures or traces requests.
func (r *request) observe() {
	config := &r.g.config
	if config.Access == nil && config.Telemetry.Tracer == nil && config.Telemetry.Meter == nil {
		return
	}
	r.observation.coldStart, r.observation.path = !r.g.warm.Swap(true), r.x.Path
	r.x.Context, r.observation.span = config.Telemetry.Tracer.Start(r.x.Context, "unrouted", r.in.Header)
	r.x.Now = config.Now
}

// report records the outcome of the request as metrics, a log line and a span. Neither the line nor the span has a
// query or a key. From the request's header, they have only the trace ID, and the request ID if a trusted proxy has
// sent it. If Telemetry.LogPaths is set, the line also has the host and the path with the values of its parameters.
func (r *request) report() {
	out, x, span, meter := &r.out, &r.x, r.observation.span, r.g.config.Telemetry.Meter
	if r.g.config.Access == nil && meter == nil && !span.Enabled() {
		return
	}
	now := x.Now()
	latency := now.Sub(x.Start)
	if meter != nil {
		meter.Request(telemetry.Request{
			Status: out.status, Aborted: out.truncated, Latency: latency,
			UpstreamLatency: x.UpstreamLatency,
		})
	}
	var info pipeline.Info
	if x.Route != nil {
		info = x.Route.Info
	}
	if r.g.config.Access != nil {
		r.logRequest(info, now, latency)
	}
	if !span.Enabled() {
		return
	}
	attributes := []attribute.KeyValue{
		attribute.Int("http.response.status_code", out.status),
		attribute.String("gatewright.request_id", x.RequestID),
		attribute.Bool("gatewright.cut", out.truncated),
		attribute.Bool("gatewright.cold_start", r.observation.coldStart),
	}
	if info.Deployment != "" {
		attributes = append(attributes, attribute.String("gatewright.deployment", info.Deployment))
	}
	if info.Path != "" {
		span.Name(info.Method + " " + info.Path)
		attributes = append(attributes,
			attribute.String("http.request.method", x.Method), attribute.String("http.route", info.Path),
			attribute.String("gatewright.operation", info.OperationID),
			attribute.Float64("gatewright.upstream_ms", telemetry.Milliseconds(x.UpstreamLatency)))
	}
	span.End(out.status >= http.StatusInternalServerError, attributes...)
}

// logRequest writes the request's log line. Causes of failures have their own lines, with the same request ID.
func (r *request) logRequest(info pipeline.Info, now time.Time, latency time.Duration) {
	out, x, observed := &r.out, &r.x, &r.observation
	h := r.g.config.Access.Handler()
	if !h.Enabled(x.Context, slog.LevelInfo) {
		return
	}
	// Do not use a Logger: it would look up its caller and the time.
	record := slog.NewRecord(now, slog.LevelInfo, "request", 0)
	attributes := make([]slog.Attr, 0, 16)
	attributes = append(attributes,
		slog.String("requestId", x.RequestID), slog.String("deployment", info.Deployment),
		slog.String("operation", info.OperationID), slog.String("route", info.Path),
		slog.String("method", telemetry.Text(x.Method)), slog.Int("status", out.status), slog.Bool("cut", out.truncated),
		slog.Float64("latency", telemetry.Milliseconds(latency)),
		slog.Float64("upstreamLatency", telemetry.Milliseconds(x.UpstreamLatency)), slog.String("policy", x.RefusedBy),
		slog.Bool("coldStart", observed.coldStart))
	if observed.span.Enabled() {
		attributes = append(attributes, slog.String("traceId", observed.span.TraceID()))
	}
	if out.status >= http.StatusInternalServerError {
		attributes = append(attributes, r.faultAttrs(now)...)
	}
	if r.g.config.Telemetry.LogPaths {
		attributes = append(attributes, slog.String("host", telemetry.Text(credential.Redact(x.Host))),
			slog.String("path", telemetry.Text(x.Redacted(observed.path))))
	}
	record.AddAttrs(attributes...)
	_ = h.Handle(x.Context, record) // ignore the error like a Logger: the request must not fail because of its log line
}

// faultAttrs returns the log attributes for a response with a 5xx status. They distinguish faults of the gateway from
// faults of the upstream. AWS counts both in the same metric, but an installation's operators can fix only faults of
// the gateway.
func (r *request) faultAttrs(now time.Time) []slog.Attr {
	name := telemetry.GatewayFaults
	if r.x.FromUpstream {
		name = telemetry.UpstreamFaults
	}
	out := []slog.Attr{slog.Int(name, 1)}
	if table := r.g.config.Telemetry.FaultsTable; table != "" {
		out = append(out, slog.String("table", table), telemetry.Count(now, name, "table"))
	}
	return out
}
