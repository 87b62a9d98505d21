// Package metrics aggregates the measurements of a gateway process, or of
// `gatewright serve`, and serves them in the text format of Prometheus.
//
// The package does not measure anything. It receives the same numbers as the log lines of requests
// (telemetry.Meter), so that metrics and log agree. CloudWatch makes its own metrics from the log lines.
//
// No label has a value that a client chooses, or that can have many values: no path, no key
// and no deployment. Such values are in the log lines, and in the analytics of the API.
//
// Read this file first, then server.go for the additional metrics of `gatewright serve`. Each
// metric is documented in docs/gateway-process.md or docs/one-server.md, and tests check that.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gatewright/gatewright/shared/base/release"
	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// Metrics has the metrics of a process. Create them with New.
type Metrics struct {
	registry *prometheus.Registry
	requests requests
	cut      prometheus.Counter
	upstream prometheus.Histogram
}

var _ telemetry.Meter = (*Metrics)(nil)

// requests has the metrics of one kind of request: the number of requests by status, and their latency.
type requests struct {
	classes [classCount]prometheus.Counter // the number of requests by the class of their status
	latency prometheus.Histogram
}

var _ telemetry.Meter = (*requests)(nil)

// classCount is the number of status classes: 1 to 5 for 1xx to 5xx, and 0 for a request without a response or with
// another status.
const classCount = 6

// latencyBuckets returns the histogram buckets of latencies in seconds. The smallest bucket is for
// the time that a gateway itself adds to a request, and the largest for the slowest usual upstream.
func latencyBuckets() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

func newHistogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: latencyBuckets()})
}

// register registers the metrics of one kind of request. kind is part of the metrics' names: it is "", or a word that
// ends with "_". description names the requests in the help text.
func (r *requests) register(registry *prometheus.Registry, kind, description string) {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatewright_" + kind + "requests_total",
		Help: description + ", by the class of their status: none for one without an answer.",
	}, []string{"class"})
	for i := range r.classes {
		name := "none"
		if i > 0 {
			name = strconv.Itoa(i) + "xx"
		}
		r.classes[i] = all.WithLabelValues(name)
	}
	r.latency = newHistogram("gatewright_"+kind+"request_duration_seconds", description+": how long they took in all.")
	registry.MustRegister(all, r.latency)
}

// Request implements telemetry.Meter.
func (r *requests) Request(m telemetry.Request) {
	class := m.Status / 100
	if class < 0 || class >= classCount {
		class = 0
	}
	r.classes[class].Inc()
	r.latency.Observe(m.Latency.Seconds())
}

// New creates the metrics of a process. connections returns the current number of client connections.
func New(connections func() int) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatewright_requests_cut_total", Help: "Requests whose answer broke off.",
		}),
		upstream: newHistogram("gatewright_upstream_duration_seconds", "How long of that upstreams were waited for."),
	}
	m.requests.register(m.registry, "", "Requests")
	m.registry.MustRegister(m.cut, m.upstream, buildInfo(),
		newGauge("gatewright_connections", "Connections of clients, idle ones too.", func() float64 {
			return float64(connections())
		}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// buildInfo returns a metric that is always 1. Its labels describe
// the release: this is the convention of Prometheus for text.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gatewright_build_info", Help: "What release this is, and what it was built by and for: always 1.",
		ConstLabels: prometheus.Labels{
			"version": release.Version(), "goversion": runtime.Version(), "goos": runtime.GOOS,
			"goarch": runtime.GOARCH,
		},
	}, func() float64 { return 1 })
}

func newGauge(name, help string, value func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// Request implements telemetry.Meter.
func (m *Metrics) Request(r telemetry.Request) {
	m.requests.Request(r)
	if r.Aborted {
		m.cut.Inc()
	}
	m.upstream.Observe(r.UpstreamLatency.Seconds())
}

// scrapeTimeout bounds the time of a response to Prometheus.
const scrapeTimeout = 10 * time.Second

// Handler returns the handler that serves all metrics.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: scrapeTimeout, MaxRequestsInFlight: 4})
}
