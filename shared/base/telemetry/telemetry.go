// Package telemetry traces requests with OpenTelemetry. It also adds metrics in CloudWatch's embedded metric format
// to log lines.
//
// It does not write log lines: package api and package gateway write one line for each request with log/slog. It does
// not decide how requests are named. Tracing is optional: a nil Tracer and a zero Span do nothing and allocate nothing.
//
// Read this file, then tracer.go. Package otlp sends spans to the endpoint that the environment names; metrics.go has the metric
// format. docs/observability.md lists the attributes of each line, metric and span, and a test compares it with the code.
package telemetry

import "time"

// Options are the telemetry settings of an installation. The zero value produces only log lines.
type Options struct {
	// Tracer starts the spans of requests. If it is nil, there are no spans.
	Tracer *Tracer
	// Metrics adds metrics to the lines of requests, for CloudWatch.
	Metrics bool
	// FaultsTable is the name of the installation's table. It identifies the installation in the metrics GatewayFaults and
	// UpstreamFaults. If it is "", there are no such metrics.
	FaultsTable string
	// LogPaths adds the host and the path to the gateway's log lines. Local runs and installations on one server set
	// it. It is not set in AWS, because a path can contain private data of a project's clients.
	LogPaths bool
	// Meter receives the measurements of each request that the gateway has handled. It can be nil.
	Meter Meter
	// Management receives the measurements of each request that the management API has handled. It can be nil.
	Management Meter
}

// Meter adds up measurements of requests. It does not block or fail.
type Meter interface{ Request(r Request) }

// Request has the measurements of one request. The request's log line has the same numbers.
type Request struct {
	// Status is the status of the response, 0 if there is none.
	Status int
	// Aborted reports whether the response was aborted.
	Aborted bool
	// Latency is the total time of the request, UpstreamLatency the part of Latency that was spent waiting for
	// upstreams.
	Latency, UpstreamLatency time.Duration
}
