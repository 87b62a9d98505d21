// Package otlp sends spans by OpenTelemetry's protocol to where the environment says. It has the SDK linked, which package telemetry,
// by which spans are made, has not: a program that sends none goes without.
//
// What it is not: needed for anything to work. Spans that cannot be sent are lost, and the log says so.
//
// Read this file for what the environment says, upload.go for the sending.
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

	"github.com/gatewright/gatewright/shared/telemetry"
)

// The variables of OpenTelemetry that are read here
// (https://opentelemetry.io/docs/specs/otel/protocol/exporter/).
const (
	VarEndpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	VarHeaders  = "OTEL_EXPORTER_OTLP_HEADERS"
)

// Variables are those that say where spans go and which ones are
// made. All but the first two are read by OpenTelemetry's SDK.
func Variables() []string {
	return []string{VarEndpoint, VarHeaders, "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"}
}

// Open makes the tracer that the environment asks for, by getenv (os.Getenv
// outside tests), or nil if it names no endpoint. service is what the spans are
// of unless the environment has another name. It sends nothing yet: an
// endpoint that cannot be reached is told to log when there are spans for it.
// An error names the variable at fault and no value.
func Open(getenv func(string) string, service string, log *slog.Logger) (*telemetry.Tracer, error) {
	endpoint := getenv(VarEndpoint)
	if endpoint == "" {
		return nil, nil // a nil Tracer is one that is off
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("read the environment: %s is no address such as http://127.0.0.1:4318", VarEndpoint)
	}
	header, err := parseHeaders(getenv(VarHeaders))
	if err != nil {
		return nil, err
	}
	to := &uploader{to: u.JoinPath("v1", "traces").String(), header: header, client: &http.Client{Timeout: uploadTime}, log: log}
	described, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", service)), resource.Environment())
	if err != nil {
		return nil, fmt.Errorf("describe the service for its spans: %w", err)
	}
	// The uploader has nothing to connect, so the exporter needs no start.
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(described), sdktrace.WithBatcher(otlptrace.NewUnstarted(to)))
	return telemetry.NewTracer(provider), nil
}

// parseHeaders reads name=value,name=value with percent-encoded values.
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
