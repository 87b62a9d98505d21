package telemetry

import (
	"log/slog"
	"time"
)

// Namespace is where CloudWatch shows the metrics.
const Namespace = "Gatewright"

// Metrics returns the attribute that makes metrics of a line of JSON in a
// Lambda's log: latency (in milliseconds), errors, readUnits and writeUnits, for
// each value of operation. All five have to be attributes of the same line, at
// its top, the first four of them numbers and operation a text that is not
// empty (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).
//
// This embedded format makes each line 283 bytes longer. PutMetricData would be
// a request, a permission and an SDK client in every function; a filter for each
// metric and log group breaks silently when a field is renamed; OpenTelemetry's
// metrics need a collector, which most installations have not got.
func Metrics(at time.Time) slog.Attr {
	return embedded(at, "operation",
		metric{Name: "latency", Unit: "Milliseconds"},
		metric{Name: "errors", Unit: "Count"},
		metric{Name: "readUnits", Unit: "Count"},
		metric{Name: "writeUnits", Unit: "Count"},
	)
}

// StuckOperations counts, by table, attempts in vain at durable operations that
// must happen and have not for long.
const StuckOperations = "stuckOperations"

// GatewayFaults and UpstreamFaults count, by table, requests to deployments that were answered
// with a 5xx: through the gateway's own fault, and through their upstream's.
const (
	GatewayFaults  = "gatewayFaults"
	UpstreamFaults = "upstreamFaults"
)

// KeyThrottles counts, by table, requests to KMS that it refused for being too many, after the SDK has repeated each.
const KeyThrottles = "keyThrottles"

// ScheduledRuns counts, by schedule, calls by a schedule that came to a good end.
const ScheduledRuns = "scheduledRuns"

// CertificateDays is, by certificate, the number of days until a certificate expires. It is negative after that.
const CertificateDays = "certificateDays"

// ChecksPassed is, by check, 1 for each check from another region that has passed, and 0 for each that has failed.
const ChecksPassed = "checksPassed"

// CheckOf returns the name of a check of an installation as a dimension of ChecksPassed.
func CheckOf(stage, check string) string { return stage + "/" + check }

// CertificateOf returns the name of a service's certificate as a dimension of CertificateDays. table is the installation's.
func CertificateOf(table, service string) string { return table + "/" + service }

// ScheduleOf is what the schedule of a function is called as a dimension of ScheduledRuns: function is the platform's name of it.
func ScheduleOf(function, schedule string) string { return function + "/" + schedule }

// Count returns the attribute that makes a metric of a line, as Metrics does: name
// is that of a number in the line, dimension that of a text which is not empty.
func Count(at time.Time, name, dimension string) slog.Attr {
	return embedded(at, dimension, metric{Name: name, Unit: "Count"})
}

func embedded(at time.Time, dimension string, metrics ...metric) slog.Attr {
	return slog.Any("_aws", metadata{ //nolint:sloglint // the name is the format's
		Timestamp:         at.UnixMilli(),
		CloudWatchMetrics: []directive{{Namespace: Namespace, Dimensions: [][]string{{dimension}}, Metrics: metrics}},
	})
}

// The names of these fields are the format's.
type metadata struct {
	Timestamp         int64
	CloudWatchMetrics []directive
}

type directive struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []metric
}

type metric struct {
	Name string
	Unit string
}

// Days returns the days from a time to another, to the hundredth. They are negative if that has passed.
func Days(from, to time.Time) float64 {
	const hundredth = 24 * time.Hour / 100
	return float64(to.Sub(from)/hundredth) / 100
}

// Milliseconds is a time as the lines have it, to the microsecond.
func Milliseconds(d time.Duration) float64 {
	const perMillisecond = 1000
	return float64(d.Microseconds()) / perMillisecond
}
