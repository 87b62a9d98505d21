package telemetry

import (
	"log/slog"
	"time"
)

// Namespace is the namespace of the metrics in CloudWatch.
const Namespace = "Gatewright"

// RequestMetrics returns the attribute that makes CloudWatch create metrics from a line of JSON in a Lambda function's
// log: latency (in milliseconds), errors, readUnits and writeUnits, for each value of operation. All five have to be
// attributes of the same line, at its top level. The first four are numbers, and operation is a text that is not empty
// (https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Embedded_Metric_Format_Specification.html).
//
// This embedded format makes each line 283 bytes longer. The alternatives are worse. PutMetricData needs a request, a
// permission and an SDK client in every function. A filter for each metric and log group breaks silently when a field
// is renamed. OpenTelemetry's metrics need a collector, which most installations do not have.
func RequestMetrics(at time.Time) slog.Attr {
	return embeddedMetrics(at, "operation",
		metric{Name: "latency", Unit: "Milliseconds"},
		metric{Name: "errors", Unit: "Count"},
		metric{Name: "readUnits", Unit: "Count"},
		metric{Name: "writeUnits", Unit: "Count"},
	)
}

// StuckOperations counts, by table, failed attempts of required durable operations that have been failing for a long
// time.
const StuckOperations = "stuckOperations"

// GatewayFaults and UpstreamFaults count, by table, requests to deployments with
// a 5xx response: caused by the gateway itself, and caused by the upstream.
const (
	GatewayFaults  = "gatewayFaults"
	UpstreamFaults = "upstreamFaults"
)

// KeyThrottles counts, by table, requests that KMS refused because of its rate limit, even after the SDK's retries.
const KeyThrottles = "keyThrottles"

// ScheduledRuns counts, by schedule, scheduled calls that succeeded.
const ScheduledRuns = "scheduledRuns"

// CertificateDays is, by certificate, the number of days until a certificate expires. It is negative for an expired
// certificate.
const CertificateDays = "certificateDays"

// ChecksPassed has, by check, a value for each run of a check from another region: 1 if the run passed, and 0 if it
// failed.
const ChecksPassed = "checksPassed"

// CheckDimension returns the name of a check as a dimension of ChecksPassed. stage is the stage of the installation
// that is checked.
func CheckDimension(stage, check string) string { return stage + "/" + check }

// CertificateDimension returns the name of a service's certificate as a dimension of CertificateDays. table is the name
// of the installation's table. The synthetic check passes the installation's stage instead.
func CertificateDimension(table, service string) string { return table + "/" + service }

// ScheduleDimension returns the name of a function's schedule as a dimension of ScheduledRuns. function is the name of
// the function in Lambda.
func ScheduleDimension(function, schedule string) string { return function + "/" + schedule }

// Count is like RequestMetrics, for one metric. The line must have an attribute called name, which is a number, and an
// attribute called dimension, which is a text that is not empty.
func Count(at time.Time, name, dimension string) slog.Attr {
	return embeddedMetrics(at, dimension, metric{Name: name, Unit: "Count"})
}

func embeddedMetrics(at time.Time, dimension string, metrics ...metric) slog.Attr {
	return slog.Any("_aws", metadata{ //nolint:sloglint // the name is the format's
		Timestamp:         at.UnixMilli(),
		CloudWatchMetrics: []directive{{Namespace: Namespace, Dimensions: [][]string{{dimension}}, Metrics: metrics}},
	})
}

// metadata is the value of the attribute _aws. CloudWatch's format defines the names of the fields of metadata,
// directive and metric.
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

// Days returns the days between two times, truncated to hundredths. They are negative if the second time is earlier.
func Days(from, to time.Time) float64 {
	const hundredth = 24 * time.Hour / 100
	return float64(to.Sub(from)/hundredth) / 100
}

// Milliseconds returns a duration in milliseconds, truncated to microseconds, as in log lines.
func Milliseconds(d time.Duration) float64 {
	const perMillisecond = 1000
	return float64(d.Microseconds()) / perMillisecond
}
