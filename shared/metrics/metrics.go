// Package metrics adds up what a gateway process measures of its requests, and answers it in
// the text format of Prometheus.
//
// What it is not: a measurement. It is told the numbers of requests' lines (telemetry.Meter),
// so that both say the same. CloudWatch makes metrics of the lines themselves.
//
// No label has a value that a client chooses, or one that there may be many of: no path, no
// key, no deployment. Who wants those has the lines, and the analytics of the API.
//
// There is only this file. Each metric is in docs/gateway-process.md, and a test holds it to that.
package metrics

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gatewright/gatewright/shared/telemetry"
)

// Metrics are those of a process. Make them with New.
type Metrics struct {
	registry          *prometheus.Registry
	classes           [classes]prometheus.Counter
	cut               prometheus.Counter
	latency, upstream prometheus.Histogram
}

var _ telemetry.Meter = (*Metrics)(nil)

// classes are those of statuses: 0 for a request without an answer, or with a status of no
// known class, and 1 to 5.
const classes = 6

// bounds returns those of latencies in seconds: from a gateway's own part of a request to the
// longest that an upstream is waited for as a rule.
func bounds() []float64 {
	return []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
}

// New makes the metrics of a process. connections is how many clients it has now.
func New(connections func() int) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		cut: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatewright_requests_cut_total", Help: "Requests whose answer broke off.",
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gatewright_request_duration_seconds", Help: "How long requests took in all.", Buckets: bounds(),
		}),
		upstream: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gatewright_upstream_duration_seconds", Help: "How long of that upstreams were waited for.", Buckets: bounds(),
		}),
	}
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gatewright_requests_total", Help: "Requests, by the class of their status: none for one without an answer.",
	}, []string{"class"})
	for i := range m.classes {
		name := "none"
		if i > 0 {
			name = strconv.Itoa(i) + "xx"
		}
		m.classes[i] = requests.WithLabelValues(name)
	}
	m.registry.MustRegister(requests, m.cut, m.latency, m.upstream,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "gatewright_connections", Help: "Connections of clients, idle ones too.",
		}, func() float64 { return float64(connections()) }),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Request implements telemetry.Meter.
func (m *Metrics) Request(r telemetry.Request) {
	class := r.Status / 100
	if class < 0 || class >= classes {
		class = 0
	}
	m.classes[class].Inc()
	if r.Cut {
		m.cut.Inc()
	}
	m.latency.Observe(r.Latency.Seconds())
	m.upstream.Observe(r.Upstream.Seconds())
}

// scrapeTimeout bounds an answer that somebody waits for.
const scrapeTimeout = 10 * time.Second

// Handler answers all of them.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Timeout: scrapeTimeout, MaxRequestsInFlight: 4})
}
