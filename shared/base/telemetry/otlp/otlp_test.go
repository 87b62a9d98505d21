package otlp_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/telemetry/otlp"
	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
)

func TestOpenErrorsDoNotRepeatValues(t *testing.T) {
	for name, env := range map[string]map[string]string{
		"no address":               {otlp.VarEndpoint: "secret"},
		"no scheme":                {otlp.VarEndpoint: "secret:4318"},
		"another scheme":           {otlp.VarEndpoint: "grpc://secret:4317"},
		"unparsable":               {otlp.VarEndpoint: "http://secret%zz"},
		"a header without a name":  {otlp.VarEndpoint: "http://x", otlp.VarHeaders: "=secret"},
		"a header without a value": {otlp.VarEndpoint: "http://x", otlp.VarHeaders: "a=b,secret"},
		"an invalid escape":        {otlp.VarEndpoint: "http://x", otlp.VarHeaders: "a=secret%z"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := otlp.Open(func(v string) string { return env[v] }, "x", slog.New(slog.DiscardHandler))
			if err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "OTEL_EXPORTER_OTLP_") {
				t.Errorf("Open() error = %v, want one that names the OTEL_EXPORTER_OTLP_ variable, not its value", err)
			}
		})
	}
	tracer, err := otlp.Open(func(string) string { return "" }, "x", nil)
	if tracer != nil || err != nil {
		t.Errorf("Open() without an endpoint = %v, %v, want nil and no error", tracer, err)
	}
}

func TestUnsentSpansAreLoggedOnceAndDropped(t *testing.T) {
	rejecting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
	}))
	defer rejecting.Close()
	unreachable := httptest.NewServer(http.NotFoundHandler())
	unreachable.Close()
	for name, tc := range map[string]struct{ endpoint, want string }{
		"refused":     {rejecting.URL + "/secret", "the collector answered 418"},
		"unreachable": {unreachable.URL + "/secret", "ask the collector: dial"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			tracer, err := otlp.Open(func(v string) string {
				return map[string]string{otlp.VarEndpoint: tc.endpoint}[v]
			}, "x", slog.New(slog.NewJSONHandler(&log, nil)))
			if err != nil {
				t.Fatal(err)
			}
			_, span := tracer.Start(t.Context(), "x", nil)
			span.End(false)
			tracer.Flush(t.Context())
			tracer.Close(context.WithoutCancel(t.Context()))
			line := telemetrytest.Line(t, log.Bytes(), "spans were not sent")
			if cause, _ := line["error"].(string); !strings.HasPrefix(cause, tc.want) || strings.Contains(cause, "secret") {
				t.Errorf("error in the log line = %q, want prefix %q and no secret", cause, tc.want)
			}
		})
	}
}
