package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// ServerMetrics has the metrics of `gatewright serve` in addition to the metrics of its gateway. Create them with
// NewServer.
type ServerMetrics struct {
	registry   *prometheus.Registry
	management requests
	commits    prometheus.Histogram
	dropped    prometheus.Counter
}

// NewServer adds the metrics of `gatewright serve` to m, which has the metrics of its gateway.
func NewServer(m *Metrics) *ServerMetrics {
	s := &ServerMetrics{
		registry: m.registry,
		commits:  newHistogram("gatewright_store_commit_duration_seconds", "How long changes took until they were on disk."),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatewright_log_lines_dropped_total",
			Help: "Lines of the log that were dropped, since they came faster than the disk took them.",
		}),
	}
	s.management.register(s.registry, "management_", "Requests to the management API")
	s.registry.MustRegister(s.commits, s.dropped)
	return s
}

// Management returns the meter of the requests to the management API.
func (s *ServerMetrics) Management() telemetry.Meter { return &s.management }

// ObserveCommit records the time until a change was on disk.
func (s *ServerMetrics) ObserveCommit(elapsed time.Duration) { s.commits.Observe(elapsed.Seconds()) }

// AddDroppedLines records the number of log lines that were dropped.
func (s *ServerMetrics) AddDroppedLines(lines int) { s.dropped.Add(float64(lines)) }

// RegisterStore adds the metric for the size of the store on disk, in bytes, which is 0 if the store is no longer
// usable. Call RegisterStore at most once. If it is not called, for example because the table is on another machine,
// the metric does not exist.
func (s *ServerMetrics) RegisterStore(bytes func() (uint64, error)) {
	s.registry.MustRegister(newGauge("gatewright_store_bytes", "What the store takes on disk.", func() float64 {
		n, err := bytes()
		if err != nil {
			return 0 // the process logs this error and ends
		}
		return float64(n)
	}))
}

// RegisterCertificate adds the metric for the expiry of the management API's TLS certificate.
// The metric is 0 while there is no certificate. Call RegisterCertificate at most once.
func (s *ServerMetrics) RegisterCertificate(expiry func() time.Time) {
	s.registry.MustRegister(newGauge("gatewright_certificate_expiry_timestamp_seconds",
		"When the certificate of the management API's name ends, in seconds since 1970; 0 while there is none.",
		func() float64 {
			expiresAt := expiry()
			if expiresAt.IsZero() {
				return 0
			}
			return float64(expiresAt.Unix())
		}))
}

// RegisterCheck adds the metrics of the last check of the data. lastCheck returns the time when the check ended, which
// is the zero time before the first check, and the number of damaged parts that it found. Call RegisterCheck at most
// once. If it is not called, because the data is on another machine, the metrics do not exist.
func (s *ServerMetrics) RegisterCheck(lastCheck func() (endedOn time.Time, damaged int)) {
	s.registry.MustRegister(
		newGauge("gatewright_check_end_timestamp_seconds",
			"When the last check of the data ended, in seconds since 1970; 0 before the first one.", func() float64 {
				checkedAt, _ := lastCheck()
				if checkedAt.IsZero() {
					return 0
				}
				return float64(checkedAt.Unix())
			}),
		newGauge("gatewright_check_damaged", "How many damaged parts of the data the last check found.", func() float64 {
			_, damaged := lastCheck()
			return float64(damaged)
		}))
}
