// Package metrics adds up what a gateway process, or one server, measures, and answers it in
// the text format of Prometheus.
//
// What it is not: a measurement. It is told the numbers of requests' lines (telemetry.Meter),
// so that both say the same. CloudWatch makes metrics of the lines themselves.
//
// No label has a value that a client chooses, or one that there may be many of: no path, no
// key, no deployment. Who wants those has the lines, and the analytics of the API.
//
// Read this file, then server.go for what one server has beside. Each metric is in
// docs/gateway-process.md or docs/one-server.md, and tests hold it to that.
package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gatewright/gatewright/shared/release"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Metrics are those of a process. Make them with New.
type Metrics struct {
	registry *prometheus.Registry
	requests requests
	cut      prometheus.Counter
	upstream prometheus.Histogram
}

var _ telemetry.Meter = (*Metrics)(nil)

// requests are those of one kind: how they ended, and how long they took.
type requests struct {
	classes [classes]prometheus.Counter
	latency prometheus.Histogram
}

var _ telemetry.Meter = (*requests)(nil)

// classes are those of statuses: 0 for a request without an answer, or with a status of no
// known class, and 1 to 5.
const classes = 6

// bounds returns those of latencies in seconds: from a gateway's own part of a request to the
// longest that an upstream is waited for as a rule.
func bounds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

func histogram(name, help string) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds()})
}

// register makes the metrics of one kind of requests. kind ends the names' first word, what are
// such requests in the help.
func (r *requests) register(in *prometheus.Registry, kind, what string) {
	all := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatewright_" + kind + "requests_total", Help: what + ", by the class of their status: none for one without an answer.",
	}, []string{"class"})
	for i := range r.classes {
		name := "none"
		if i > 0 {
			name = strconv.Itoa(i) + "xx"
		}
		r.classes[i] = all.WithLabelValues(name)
	}
	r.latency = histogram("gatewright_"+kind+"request_duration_seconds", what+": how long they took in all.")
	in.MustRegister(all, r.latency)
}

// Request implements telemetry.Meter.
func (r *requests) Request(m telemetry.Request) {
	class := m.Status / 100
	if class < 0 || class >= classes {
		class = 0
	}
	r.classes[class].Inc()
	r.latency.Observe(m.Latency.Seconds())
}

// New makes the metrics of a process. connections is how many clients it has now.
func New(connections func() int) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatewright_requests_cut_total", Help: "Requests whose answer broke off.",
		}),
		upstream: histogram("gatewright_upstream_duration_seconds", "How long of that upstreams were waited for."),
	}
	m.requests.register(m.registry, "", "Requests")
	m.registry.MustRegister(m.cut, m.upstream, buildInfo(),
		gauge("gatewright_connections", "Connections of clients, idle ones too.", func() float64 { return float64(connections()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// buildInfo is 1, as Prometheus has it of what is a text: labels say what release this is.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "gatewright_build_info", Help: "What release this is, and what it was built by and for: always 1.",
		ConstLabels: prometheus.Labels{"version": release.Version(), "goversion": runtime.Version(), "goos": runtime.GOOS, "goarch": runtime.GOARCH},
	}, func() float64 { return 1 })
}

func gauge(name, help string, value func() float64) prometheus.GaugeFunc {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
}

// Request implements telemetry.Meter.
func (m *Metrics) Request(r telemetry.Request) {
	m.requests.Request(r)
	if r.Cut {
		m.cut.Inc()
	}
	m.upstream.Observe(r.Upstream.Seconds())
}

// scrapeTimeout bounds an answer that somebody waits for.
const scrapeTimeout = 10 * time.Second

// Handler answers all of them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: scrapeTimeout, MaxRequestsInFlight: 4})
}
