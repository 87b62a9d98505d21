package policy

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// describedRoute returns a route whose requests and responses are objects in JSON of at most one property.
func describedRoute() *pipeline.Route {
	content := []project.MediaType{
		{Type: "application/json", Schema: json.RawMessage(`{"type": "object", "maxProperties": 1}`)},
	}
	return &pipeline.Route{Description: pipeline.NewDescription(schema.NewDefinitions(nil), &project.Route{
		Request:   &project.RequestDescription{Body: &project.BodyDescription{Content: content}},
		Responses: project.ResponseDescription{"200": {Content: content}},
	})}
}

// zippedBytes returns a text, compressed with gzip.
func zippedBytes(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// largeJSON returns an object in JSON of more than smallBody bytes.
func largeJSON() string { return `{"a":"` + strings.Repeat("x", 2*smallBody) + `"}` }

// sentRequest returns the exchange of a POST with a body in JSON. encoding is its Content-Encoding, or "".
func sentRequest(ctx context.Context, body []byte, encoding string) *pipeline.Exchange {
	x := &pipeline.Exchange{
		Context: ctx, Method: http.MethodPost, Route: describedRoute(), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if encoding != "" {
		x.Header["Content-Encoding"] = []string{encoding}
	}
	return x
}

// requestPolicy returns a request-validation-inbound policy.
func requestPolicy(t *testing.T, options string, s *Setup) pipeline.Inbound {
	t.Helper()
	provisioned, problems := newRequestValidation("p", json.RawMessage(options), s)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return provisioned.Inbound
}

// TestCheckedBodiesReleaseTheirSlots checks that the slots for large bodies are available again after each check: of a
// valid body, of an invalid one, and of one that is not JSON.
func TestCheckedBodiesReleaseTheirSlots(t *testing.T) {
	t.Parallel()
	slots := semaphore.NewWeighted(slotBytes)
	request := requestPolicy(t, `{}`, &Setup{CheckSlots: slots})
	for name, body := range map[string]string{
		"valid": largeJSON(), "invalid": "[" + largeJSON() + "]", "no JSON": strings.Repeat("x", 2*smallBody),
	} {
		x := sentRequest(t.Context(), []byte(body), "")
		if response := request.Inbound(x); (response == nil) != (name == "valid") {
			t.Errorf("Inbound(%s) = %v, want a response only for an invalid body", name, response)
		}
		if !slots.TryAcquire(slotBytes) {
			t.Fatalf("slots after the check of a request = not available, want all of them (%s)", name)
		}
		slots.Release(slotBytes)
		for _, mode := range []string{"log", "reject"} {
			provisioned, _ := newResponseValidation("p", json.RawMessage(`{"mode": "`+mode+`"}`), &Setup{CheckSlots: slots})
			r := provisioned.Outbound.Outbound(receivedResponse(t), &http.Response{
				StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body)),
				Header: http.Header{"Content-Type": {"application/json"}},
			})
			_, _ = io.ReadAll(r.Body)
			_ = r.Body.Close()
			if !slots.TryAcquire(slotBytes) {
				t.Fatalf("slots after the check of a response in the mode %s = not available, want all of them (%s)", mode, name)
			}
			slots.Release(slotBytes)
		}
	}
}

// receivedResponse returns the exchange of a GET whose response comes from the upstream.
func receivedResponse(t *testing.T) *pipeline.Exchange {
	t.Helper()
	return &pipeline.Exchange{
		Context: t.Context(), Method: http.MethodGet, Route: describedRoute(), FromUpstream: true, Header: http.Header{},
	}
}

// TestUnzippedBodiesCountAsMemory checks that the memory of a decompressed body counts toward the memory for bodies, and
// that a lack of memory is no mistake of the client or of the upstream.
func TestUnzippedBodiesCountAsMemory(t *testing.T) {
	t.Parallel()
	zipped := zippedBytes(t, `{"a":"`+strings.Repeat("x", 512<<10)+`"}`)
	client := netip.MustParseAddr("192.0.2.1")
	begin := func(b *bodies.Budget) context.Context {
		r, done := b.Begin((&http.Request{}).WithContext(t.Context()), client, func() {})
		t.Cleanup(done)
		return r.Context()
	}
	small, busy := bodies.New(64<<10), bodies.New(8<<20)
	if err := bodies.Reserve(begin(busy), 1<<20); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name   string
		budget *bodies.Budget
		status int
	}{
		{"the client's share is smaller than the body", small, http.StatusRequestEntityTooLarge},
		{"the client's share is in use", busy, http.StatusServiceUnavailable},
	} {
		response := requestPolicy(t, `{}`, &Setup{}).Inbound(sentRequest(begin(test.budget), zipped, "gzip"))
		if response == nil || response.StatusCode != test.status {
			t.Errorf("%s: Inbound() = %v, want the status %d", test.name, response, test.status)
			continue
		}
		retried := response.Header.Get("Retry-After") != ""
		if want := test.status == http.StatusServiceUnavailable; retried != want {
			t.Errorf("%s: Inbound() has Retry-After: %t, want %t", test.name, retried, want)
		}
		var log bytes.Buffer
		s := &Setup{Log: slog.New(slog.NewTextHandler(&log, nil))}
		if response := requestPolicy(t, `{"body": "log"}`, s).Inbound(
			sentRequest(begin(test.budget), zipped, "gzip")); response != nil {
			t.Errorf("%s: Inbound() in the mode log = status %d, want no response", test.name, response.StatusCode)
		}
		provisioned, _ := newResponseValidation("p", json.RawMessage(`{"mode": "reject"}`), s)
		x := receivedResponse(t)
		x.Context = begin(test.budget)
		received := provisioned.Outbound.Outbound(x, &http.Response{
			StatusCode: http.StatusOK, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(zipped)),
			Header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}},
		})
		if received.StatusCode != http.StatusOK {
			t.Errorf("%s: Outbound() = status %d, want the upstream's response", test.name, received.StatusCode)
		}
		if got := strings.Count(log.String(), "no memory"); got != 2 {
			t.Errorf("%s: log = %s, want two lines with the reason no memory", test.name, log.String())
		}
	}
}

// TestLimitCountsUnzippedBytes checks the limit of a body around maxBodyBytes: before and after it is decompressed.
func TestLimitCountsUnzippedBytes(t *testing.T) {
	t.Parallel()
	const text = `{"a":"0123456789"}`
	for limit, want := range map[string]int{"18": 0, "17": http.StatusRequestEntityTooLarge} {
		for _, encoding := range []string{"", "gzip"} {
			body := []byte(text)
			if encoding != "" {
				body = zippedBytes(t, strings.Repeat(" ", 1000)+text)
				limit = map[string]string{"18": "1018", "17": "1017"}[limit]
			}
			got := 0
			response := requestPolicy(t, `{"maxBodyBytes": `+limit+`}`, &Setup{}).Inbound(
				sentRequest(t.Context(), body, encoding))
			if response != nil {
				got = response.StatusCode
			}
			if got != want {
				t.Errorf("Inbound(encoding %q) with maxBodyBytes %s: status = %d, want %d, or 0 for none", encoding, limit, got,
					want)
			}
		}
	}
}

// TestValidationIsCounted checks the lines of the log that are metrics: they are metrics only if Metrics is set.
func TestValidationIsCounted(t *testing.T) {
	t.Parallel()
	for _, metrics := range []bool{false, true} {
		var log bytes.Buffer
		s := &Setup{Log: slog.New(slog.NewJSONHandler(&log, nil)), Metrics: metrics, Now: time.Now}
		policy := requestPolicy(t, `{"body": "log"}`, s)
		for metric, x := range map[string]*pipeline.Exchange{
			InvalidRequests: sentRequest(t.Context(), []byte(`[]`), ""), UncheckedBodies: sentRequest(t.Context(), []byte(`x`), "br"),
		} {
			log.Reset()
			if response := policy.Inbound(x); response != nil {
				t.Errorf("Inbound() in the mode log = status %d, want no response", response.StatusCode)
			}
			if line := log.String(); !strings.Contains(line, `"`+metric+`":1`) ||
				strings.Contains(line, `"_aws"`) != metrics {
				t.Errorf("line of %s = %s, want it to be a metric: %t", metric, line, metrics)
			}
		}
	}
}

// TestValidationOptionsWithoutEffect checks combinations of options with which a policy, or an option, would check
// nothing.
func TestValidationOptionsWithoutEffect(t *testing.T) {
	t.Parallel()
	const none = `"pathParameters": "none", "queryParameters": "none", "headers": "none", "cookies": "none"`
	for options, want := range map[string]string{
		`{}`: "", `{` + none + `}`: "", `{` + none + `, "body": "none"}`: "checks nothing",
		`{` + none + `, "body": "log"}`: "",
		`{"unknownQuery": "reject"}`:    "",
		`{"unknownQuery": "reject", "queryParameters": "log"}`:  "has no effect",
		`{"unknownQuery": "reject", "queryParameters": "none"}`: "has no effect",
		`{"unknownQuery": "ignore", "queryParameters": "none"}`: "",
	} {
		_, problems := newRequestValidation("p", json.RawMessage(options), nil)
		if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Message, want)) {
			t.Errorf("newRequestValidation(%s) problems = %v, want one with %q, or none if this is empty", options, problems, want)
		}
	}
	for options, want := range map[string]bool{`{}`: false, `{"sampleRate": 0.1}`: false, `{"sampleRate": 0}`: true} {
		if _, problems := newResponseValidation("p", json.RawMessage(options), nil); (len(problems) > 0) != want {
			t.Errorf("newResponseValidation(%s) problems = %v, want some: %t", options, problems, want)
		}
	}
}
