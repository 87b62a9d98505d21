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
	"testing/iotest"
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
		Responses: project.ResponseDescription{"200": {Content: content}, "default": {Content: content}},
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
		Context: ctx, Method: http.MethodPost, Route: describedRoute(),
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
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
			InvalidRequests: sentRequest(t.Context(), []byte(`[]`), ""),
			UncheckedBodies: sentRequest(t.Context(), []byte(`x`), "br"),
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
		`{` + none + `, "body": "log"}`:                         "",
		`{"unknownQuery": "reject"}`:                            "",
		`{"unknownQuery": "reject", "queryParameters": "log"}`:  "has no effect",
		`{"unknownQuery": "reject", "queryParameters": "none"}`: "has no effect",
		`{"unknownQuery": "ignore", "queryParameters": "none"}`: "",
	} {
		_, problems := newRequestValidation("p", json.RawMessage(options), nil)
		if want == "" && len(problems) > 0 ||
			want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Message, want)) {
			t.Errorf("newRequestValidation(%s) problems = %v, want one with %q, or none if this is empty",
				options, problems, want)
		}
	}
	for options, want := range map[string]bool{`{}`: false, `{"sampleRate": 0.1}`: false, `{"sampleRate": 0}`: true} {
		if _, problems := newResponseValidation("p", json.RawMessage(options), nil); (len(problems) > 0) != want {
			t.Errorf("newResponseValidation(%s) problems = %v, want some: %t", options, problems, want)
		}
	}
}

// TestResponsesWithoutBodiesPass checks that responses that cannot have a body are not checked for one, although they have
// the header of the response to a GET.
func TestResponsesWithoutBodiesPass(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		status int
		want   int
	}{
		{http.MethodHead, http.StatusOK, http.StatusOK},
		{http.MethodGet, http.StatusNotModified, http.StatusNotModified},
		{http.MethodDelete, http.StatusNoContent, http.StatusNoContent},
		{http.MethodGet, http.StatusOK, http.StatusBadGateway}, // its body is missing
	} {
		for _, mode := range []string{"log", "reject"} {
			var log bytes.Buffer
			provisioned, _ := newResponseValidation("p", json.RawMessage(`{"mode": "`+mode+`"}`),
				&Setup{Log: slog.New(slog.NewTextHandler(&log, nil))})
			x := receivedResponse(t)
			x.Method = test.method
			r := provisioned.Outbound.Outbound(x, &http.Response{
				StatusCode: test.status, ContentLength: 0, Body: http.NoBody,
				Header: http.Header{"Content-Type": {"application/json"}},
			})
			isValid := test.want == test.status
			if want := map[bool]int{true: test.want, false: test.status}[mode == "reject"]; r.StatusCode != want {
				t.Errorf("Outbound(%s with %d) in the mode %s = status %d, want %d", test.method, test.status, mode, r.StatusCode,
					want)
			}
			if (log.Len() == 0) != isValid {
				t.Errorf("Outbound(%s with %d) in the mode %s: log = %s, want lines: %t",
					test.method, test.status, mode, log.String(),
					!isValid)
			}
			if named := x.RefusedBy == "p"; named != (mode == "reject" && !isValid) {
				t.Errorf("Outbound(%s with %d) in the mode %s: RefusedBy = %q, want the policy only for a refused response",
					test.method, test.status, mode, x.RefusedBy)
			}
		}
	}
}

// TestIncompleteResponsesAreNotChecked checks that the mode log reports no violations of a body that the upstream, or the
// client, has ended early.
func TestIncompleteResponsesAreNotChecked(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]io.Reader{
		"the upstream": io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)),
		"the client":   strings.NewReader(`{"a":1}`),
	} {
		var log bytes.Buffer
		provisioned, _ := newResponseValidation("p", json.RawMessage(`{}`),
			&Setup{Log: slog.New(slog.NewTextHandler(&log, nil))})
		r := provisioned.Outbound.Outbound(receivedResponse(t), &http.Response{
			StatusCode: http.StatusOK, ContentLength: 7, Body: io.NopCloser(body),
			Header: http.Header{"Content-Type": {"application/json"}},
		})
		if name == "the upstream" {
			_, _ = io.ReadAll(r.Body)
		}
		_ = r.Body.Close()
		if got := log.String(); !strings.Contains(got, "ended early") || strings.Contains(got, "does not match") {
			t.Errorf("%s ends the body: log = %s, want the reason ended early, and no violation", name, got)
		}
	}
}

// countedBody is a body that counts its reads, and records whether it was closed.
type countedBody struct {
	io.Reader
	reads    int
	isClosed bool
}

// Read implements io.Reader.
func (c *countedBody) Read(p []byte) (int, error) {
	c.reads++
	return c.Reader.Read(p)
}

// Close implements io.Closer.
func (c *countedBody) Close() error {
	c.isClosed = true
	return nil
}

// TestOnlyCheckedBodiesAreReadFirst checks which bodies of responses are read before they are sent: only those that the
// mode reject checks. Streams and large bodies are forwarded at once.
func TestOnlyCheckedBodiesAreReadFirst(t *testing.T) {
	t.Parallel()
	header := func(fields ...string) http.Header {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(fields); i += 2 {
			h.Set(fields[i], fields[i+1])
		}
		return h
	}
	for name, test := range map[string]struct {
		mode   string
		status int
		length int64
		header http.Header
		isRead bool
		log    string
	}{
		"reject":            {"reject", 200, 7, header(), true, ""},
		"reject, in chunks": {"reject", 200, -1, header(), true, ""},
		"log":               {"log", 200, 7, header(), false, ""},
		"log, in chunks":    {"log", 200, -1, header(), false, ""},
		"a large body":      {"reject", 200, maxValidatedResponse + 1, header(), false, "too large"},
		"events": {
			"reject", 200, -1, header("Content-Type", "text/event-stream; charset=utf-8"), false, "streamed",
		},
		"lines of JSON": {
			"reject", 200, -1, header("Content-Type", "Application/X-NDJSON; a=b"), false, "streamed",
		},
		"records of JSON":          {"reject", 200, -1, header("Content-Type", "application/json-seq"), false, "streamed"},
		"a part":                   {"reject", 206, 7, header(), false, "partial"},
		"an unknown encoding":      {"reject", 200, 7, header("Content-Encoding", "br"), false, "content encoding"},
		"two encodings":            {"reject", 200, 7, header("Content-Encoding", "gzip, gzip"), false, "content encoding"},
		"an encoding that is none": {"reject", 200, 7, header("Content-Encoding", "identity"), true, ""},
	} {
		var log bytes.Buffer
		provisioned, _ := newResponseValidation("p", json.RawMessage(`{"mode": "`+test.mode+`"}`),
			&Setup{Log: slog.New(slog.NewTextHandler(&log, nil))})
		body := &countedBody{Reader: strings.NewReader(`{"a":1}`)}
		x := receivedResponse(t)
		x.Route = &pipeline.Route{Description: pipeline.NewDescription(schema.NewDefinitions(nil), &project.Route{
			Responses: project.ResponseDescription{"2XX": {Content: []project.MediaType{
				{Type: "*/*", Schema: json.RawMessage(`true`)},
			}}},
		})}
		r := provisioned.Outbound.Outbound(x, &http.Response{
			StatusCode: test.status, ContentLength: test.length, Body: body, Header: test.header,
		})
		if isRead := body.reads > 0; isRead != test.isRead {
			t.Errorf("%s: Outbound() reads the body: %t, want %t", name, isRead, test.isRead)
		}
		if all, err := io.ReadAll(r.Body); string(all) != `{"a":1}` || err != nil {
			t.Errorf("%s: body after Outbound() = %q, %v, want the upstream's", name, all, err)
		}
		_ = r.Body.Close()
		if !body.isClosed {
			t.Errorf("%s: the upstream's body is not closed, want it closed with the response", name)
		}
		if got := log.String(); (got == "") != (test.log == "") || !strings.Contains(got, test.log) {
			t.Errorf("%s: log = %s, want %q", name, got, test.log)
		}
	}
	broken := &countedBody{Reader: iotest.ErrReader(io.ErrUnexpectedEOF)}
	provisioned, _ := newResponseValidation("p", json.RawMessage(`{"mode": "reject"}`), &Setup{})
	r := provisioned.Outbound.Outbound(receivedResponse(t), &http.Response{
		StatusCode: http.StatusOK, ContentLength: -1, Body: broken, Header: header(),
	})
	if r.StatusCode != http.StatusBadGateway || !broken.isClosed {
		t.Errorf("Outbound(a broken body) = status %d, body closed: %t, want 502 and true", r.StatusCode, broken.isClosed)
	}
}
