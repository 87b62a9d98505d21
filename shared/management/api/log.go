package api

import (
	"log/slog"
	"net/http"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// log writes the request's log line, and reports the request to the metrics of the management API, if there are any.
// The line contains no header, query or body.
func (s *Server) log(r *http.Request, st *state, status int) {
	u := st.meter.Usage()
	latency := s.parts.Now().Sub(st.start)
	if m := s.parts.Telemetry.Management; m != nil {
		m.Request(telemetry.Request{Status: status, Latency: latency})
	}
	fields := []slog.Attr{
		slog.String("requestId", st.requestID), slog.String("operation", st.operation),
		slog.String("method", telemetry.Text(r.Method)), slog.String("path", telemetry.Text(st.path)),
		slog.Int("status", status),
		slog.Float64("latency", telemetry.Milliseconds(latency)),
		slog.Float64("readUnits", u.ReadUnits), slog.Float64("writeUnits", u.WriteUnits),
		slog.Bool("coldStart", st.coldStart),
	}
	if st.principal != nil {
		fields = append(fields, slog.String("account", st.principal.AccountName), slog.String("key", st.principal.KeyID))
	}
	if st.span.Enabled() {
		fields = append(fields, slog.String("traceId", st.span.TraceID()))
	}
	if st.call != (Call{}) {
		fields = append(fields, slog.String("source", st.call.Source), slog.String("within", st.outerID),
			slog.Bool("dryRun", st.call.DryRun))
	}
	level, failures := slog.LevelInfo, 0
	if st.failed(status) {
		level, failures = slog.LevelError, 1
		if st.problem != nil {
			fields = append(fields, slog.Any("error", st.problem.cause))
		}
	}
	if s.parts.Telemetry.Metrics && st.operation != "" { // a metric's dimension must not be empty
		fields = append(fields, slog.Int("errors", failures), telemetry.RequestMetrics(st.start))
	}
	s.parts.Log.LogAttrs(r.Context(), level, "request", fields...)
}

// failed reports whether a request failed because of the server and not because of the client. A 429 that a polled
// operation sends as a 500 counts as failed.
func (st *state) failed(status int) bool {
	if st.problem != nil {
		status = st.problem.Status
	}
	return status >= http.StatusInternalServerError
}

// endSpan ends the request's span. The span has the route instead of the path, because the path contains names that
// users chose.
func (st *state) endSpan(method string, status int) {
	if !st.span.Enabled() {
		return
	}
	u := st.meter.Usage()
	attributes := []attribute.KeyValue{
		attribute.Int("http.response.status_code", status),
		attribute.String("gatewright.request_id", st.requestID),
		attribute.Bool("gatewright.cold_start", st.coldStart),
		attribute.Float64("gatewright.read_units", u.ReadUnits),
		attribute.Float64("gatewright.write_units", u.WriteUnits),
	}
	if st.route != "" {
		attributes = append(attributes, attribute.String("http.request.method", method),
			attribute.String("http.route", st.route))
	}
	if st.principal != nil {
		attributes = append(attributes, attribute.String("gatewright.account", st.principal.AccountID))
	}
	st.span.End(st.failed(status), attributes...)
}
