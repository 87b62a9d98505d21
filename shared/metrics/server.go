package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gatewright/gatewright/shared/telemetry"
)

// Server is what one server measures beside its gateway. Make it with NewServer.
type Server struct {
	in         *prometheus.Registry
	management requests
	commits    prometheus.Histogram
	dropped    prometheus.Counter
}

// NewServer adds the metrics of one server to those of its gateway.
func NewServer(m *Metrics) *Server {
	s := &Server{
		in:      m.registry,
		commits: histogram("gatewright_store_commit_duration_seconds", "How long changes took until they were on disk."),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gatewright_log_lines_dropped_total", Help: "Lines of the log that were dropped, since they came faster than the disk took them.",
		}),
	}
	s.management.register(s.in, "management_", "Requests to the management API")
	s.in.MustRegister(s.commits, s.dropped)
	return s
}

// Management is told of each request to the management API.
func (s *Server) Management() telemetry.Meter { return &s.management }

// Committed is told how long a change took until it was on disk.
func (s *Server) Committed(took time.Duration) { s.commits.Observe(took.Seconds()) }

// Dropped is told how many lines of the log were dropped.
func (s *Server) Dropped(lines int) { s.dropped.Add(float64(lines)) }

// Store has the size of the store on disk answered, in bytes, 0 for one that cannot be used any more. It is called once
// at most; without it, as of a table that runs elsewhere, there is no such metric.
func (s *Server) Store(bytes func() (uint64, error)) {
	s.in.MustRegister(gauge("gatewright_store_bytes", "What the store takes on disk.", func() float64 {
		n, err := bytes()
		if err != nil {
			return 0 // which ends the process, with its reason
		}
		return float64(n)
	}))
}

// Certificate has the end of the certificate answered that the management API is served with by TLS, 0 where there is
// none at the time. It is called once at most.
func (s *Server) Certificate(ends func() time.Time) {
	s.in.MustRegister(gauge("gatewright_certificate_expiry_timestamp_seconds",
		"When the certificate of the management API's name ends, in seconds since 1970; 0 while there is none.", func() float64 {
			at := ends()
			if at.IsZero() {
				return 0
			}
			return float64(at.Unix())
		}))
}

// Checked adds metrics of the last check of the data: when it ended, which is the zero time before the first check, and how many
// damaged parts it found. Call it once at most. If the data are elsewhere, nobody calls it, and these metrics do not exist.
func (s *Server) Checked(last func() (endedOn time.Time, damaged int)) {
	s.in.MustRegister(
		gauge("gatewright_check_end_timestamp_seconds", "When the last check of the data ended, in seconds since 1970; 0 before the first one.", func() float64 {
			at, _ := last()
			if at.IsZero() {
				return 0
			}
			return float64(at.Unix())
		}),
		gauge("gatewright_check_damaged", "How many damaged parts of the data the last check found.", func() float64 {
			_, damaged := last()
			return float64(damaged)
		}))
}
