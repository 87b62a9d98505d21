// Package telemetry traces requests, with OpenTelemetry, and adds metrics to
// their lines in the log, in CloudWatch's embedded metric format.
//
// What it is not: the log itself, which is log/slog's (package api and package
// gateway write one line for each request), nor a place that decides what a
// request is called. Nothing here is needed for anything to work: a nil Tracer
// and a zero Span do nothing and allocate nothing.
//
// Read this file, then tracer.go; package otlp sends spans to where the
// environment says, metrics.go is the metric format. What each line, metric and
// span has is in docs/observability.md, and a test holds it to that.
package telemetry

import "time"

// Options are what an installation tells of itself. The zero value tells
// nothing but the log's lines.
type Options struct {
	// Tracer starts the spans of requests, nil for none.
	Tracer *Tracer
	// Metrics adds metrics to the lines of requests, for CloudWatch.
	Metrics bool
	// Faults names the installation's table in metrics of the gateway's faults and its upstreams', "" for none.
	Faults string
	// Paths adds the host and the path to the lines of the gateway. In front of
	// a person they say what was asked; in a shared installation a path may
	// hold what the clients of a project keep to themselves.
	Paths bool
	// Meter is told what was measured of each request that the gateway has answered, nil
	// for nobody.
	Meter Meter
	// Management is told of each request that the management API has answered, nil for nobody.
	Management Meter
}

// Meter adds requests up. It neither blocks nor fails.
type Meter interface{ Request(r Request) }

// Request is what was measured of a request: the numbers of its line.
type Request struct {
	// Status is the answer's, 0 for none.
	Status int
	// Cut tells that the answer broke off.
	Cut bool
	// Latency is how long it took in all, Upstream how long of that others were waited for.
	Latency, Upstream time.Duration
}
