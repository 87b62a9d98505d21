// Package otlp sends spans with OpenTelemetry's protocol to the endpoint that the environment names. It imports
// OpenTelemetry's SDK. Package telemetry, which creates spans, does not import the SDK, so that programs that send no
// spans do not contain it.
//
// Nothing depends on spans: those that cannot be sent are lost, and the package logs that.
//
// Read this file for the environment, upload.go for the sending.
package otlp

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// The OpenTelemetry variables that are read here (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
const (
	VarEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	VarHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
)

// Variables returns the names of the variables that determine where spans go, which spans are recorded, and how the
// service is described. OpenTelemetry's SDK reads all but the first two.
func Variables() []string {
	return []string{VarEndpoint, VarHeaders, "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}
}

// Open returns the tracer that the environment configures, or nil if the environment names no endpoint. getenv is
// os.Getenv outside tests. service is the service name of the spans, unless the environment has another name. Open
// does not connect to the endpoint: if spans cannot be sent later, log reports it. An error about a variable names
// the variable and not its value.
func Open(getenv func(string) string, service string, log *slog.Logger) (*telemetry.Tracer, error) {
	endpoint := getenv(VarEndpoint)
	if endpoint == "" {
		return nil, nil // a nil Tracer starts no spans
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("read the environment: %s is no address such as http://127.0.0.1:4318", VarEndpoint)
	}
	header, err := parseHeaders(getenv(VarHeaders))
	if err != nil {
		return nil, err
	}
	client := &uploader{
		endpoint: u.JoinPath("v1", "traces").String(), header: header,
		client: &http.Client{Timeout: uploadTimeout}, log: log,
	}
	res, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", service)), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describe the service for its spans: %w", err)
	}
	// The exporter is not started, because the uploader has nothing to connect.
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(res),
		sdktrace.WithBatcher(otlptrace.NewUnstarted(client)))
	return telemetry.NewTracer(provider), nil
}

// parseHeaders parses header fields in the form name=value,name=value with percent-encoded values.
func parseHeaders(text string) (http.Header, error) {
	header := http.Header{}
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || strings.TrimSpace(name) == "" {
			return nil, fmt.Errorf("read the environment: %s is no list of name=value with percent-encoded values", VarHeaders)
		}
		header.Set(strings.TrimSpace(name), value)
	}
	return header, nil
}
