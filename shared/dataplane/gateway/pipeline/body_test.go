package pipeline_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// closeRecorder is a body that records whether it was closed.
type closeRecorder struct {
	io.Reader
	isClosed bool
}

// Close implements io.Closer.
func (r *closeRecorder) Close() error {
	r.isClosed = true
	return nil
}

// bodyFields returns a header with fields that describe the bytes of a body, and with two other fields:
// Content-Language and X-Mine.
func bodyFields() http.Header {
	return http.Header{
		"Content-Type": {"text/plain"}, "Content-Encoding": {"gzip"}, "Content-Digest": {"a"}, "Repr-Digest": {"a"},
		"Digest": {"a"}, "Content-Md5": {"a"},
		"Content-Language": {"de"}, "X-Mine": {"yes"},
	}
}

// replacingPolicy is a policy that replaces the body of a request with {}, or refuses the request when the body is
// written.
type replacingPolicy struct{ refusal *http.Response }

// Inbound implements pipeline.Inbound.
func (r replacingPolicy) Inbound(x *pipeline.Exchange) *http.Response {
	x.SetBody(func() ([]byte, *http.Response) { return []byte("{}"), r.refusal }, "application/json")
	return nil
}

// recordingHandler is a handler that records its request.
type recordingHandler struct {
	x    *pipeline.Exchange
	body string
}

// Handle implements pipeline.Handler.
func (h *recordingHandler) Handle(x *pipeline.Exchange) *http.Response {
	all, _ := io.ReadAll(x.Body)
	h.x, h.body = x, string(all)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody}
}

// TestSetBodyRemovesFieldsOfTheOldBody checks that fields that describe the old body are
// removed, and that the old body's trailers do not follow the new body, whose length is known.
func TestSetBodyRemovesFieldsOfTheOldBody(t *testing.T) {
	t.Parallel()
	old, handler := &closeRecorder{Reader: strings.NewReader("old")}, &recordingHandler{}
	route := &pipeline.Route{Inbound: []pipeline.Inbound{replacingPolicy{}}, Handler: handler}
	x := &pipeline.Exchange{
		Context: t.Context(), Header: bodyFields(), Body: old, ContentLength: 3,
		Trailer: http.Header{"X-Sum": {"1"}},
	}
	if response := route.Run(x); response.StatusCode != http.StatusOK || handler.x == nil {
		t.Fatalf("Run() status = %d, handler called: %t, want 200 and true", response.StatusCode, handler.x != nil)
	}
	if handler.body != "{}" || x.ContentLength != 2 || x.Trailer != nil || !old.isClosed {
		t.Errorf("body at the handler = %q (%d bytes), trailer = %v, old body closed: %t, want \"{}\" (2 bytes), no trailer "+
			"and true",
			handler.body, x.ContentLength, x.Trailer, old.isClosed)
	}
	wantFields(t, x.Header, "Content-Type: application/json", "Content-Language: de", "X-Mine: yes")
}

// TestRefusedBodyDoesNotReachTheHandler checks that the refusal of a body becomes the response
// without a call of the handler, although all policies have let the exchange through.
func TestRefusedBodyDoesNotReachTheHandler(t *testing.T) {
	t.Parallel()
	handler := &recordingHandler{}
	refusal := &http.Response{StatusCode: http.StatusBadRequest, Header: http.Header{}, Body: http.NoBody}
	route := &pipeline.Route{Inbound: []pipeline.Inbound{replacingPolicy{refusal}}, Handler: handler}
	x := &pipeline.Exchange{Context: t.Context(), Header: bodyFields(), Body: http.NoBody}
	onResponseCalls := 0
	x.OnResponse(func(r *http.Response, handled bool) {
		if onResponseCalls++; handled || r != refusal {
			t.Errorf("OnResponse(status %d, handled %t), want the refusal and false", r.StatusCode, handled)
		}
	})
	x.AddResponseField("X-Limit", "1")
	if response := route.Run(x); response != refusal || handler.x != nil || onResponseCalls != 1 ||
		response.Header.Get("X-Limit") != "1" {
		t.Errorf("Run() returns the refusal: %t, OnResponse calls = %d, header = %v, handler called: %t, want true, 1, "+
			"X-Limit and false",
			response == refusal, onResponseCalls, response.Header, handler.x != nil)
	}
}

// TestSetResponseBodyRemovesFieldsOfTheOldBody checks that fields that describe the old body are
// removed. Otherwise caches would confuse the two responses, or combine their parts.
func TestSetResponseBodyRemovesFieldsOfTheOldBody(t *testing.T) {
	t.Parallel()
	old := &closeRecorder{Reader: strings.NewReader("old")}
	r := &http.Response{Header: bodyFields(), Body: old, ContentLength: 3, Trailer: http.Header{"X-Sum": {"1"}}}
	r.Header["Etag"], r.Header["Accept-Ranges"], r.Header["Content-Length"] = []string{`"1"`}, []string{"bytes"},
		[]string{"3"}
	pipeline.SetResponseBody(r, []byte("other"))
	if all, err := io.ReadAll(r.Body); string(all) != "other" || err != nil {
		t.Errorf("SetResponseBody(other): body = %q, %v, want %q", all, err, "other")
	}
	if r.ContentLength != 5 || r.Trailer != nil || !old.isClosed {
		t.Errorf("response: length = %d, trailer = %v, old body closed: %t, want 5, none and true",
			r.ContentLength, r.Trailer, old.isClosed)
	}
	wantFields(t, r.Header, "Content-Type: text/plain", "Content-Length: 5", "Content-Language: de", "X-Mine: yes")
}

// wantFields checks that a header has exactly these fields.
func wantFields(t *testing.T, h http.Header, want ...string) {
	t.Helper()
	for _, field := range want {
		name, value, _ := strings.Cut(field, ": ")
		if got := strings.Join(h[name], ", "); got != value {
			t.Errorf("header %s = %q, want %q", name, got, value)
		}
	}
	if len(h) != len(want) {
		t.Errorf("header = %v, want only %v", h, want)
	}
}

// TestReadBody reads bodies around the limit, with and without a known length, and checks what the handler can read
// afterwards: the whole body, also if ReadBody has read only its beginning.
func TestReadBody(t *testing.T) {
	t.Parallel()
	const limit = 5
	for _, tt := range []struct {
		text            string
		known, streams  bool
		whole, readable bool
	}{
		{"1234", true, false, true, true},
		{"12345", true, false, true, true},
		{"123456", true, false, false, true}, // nothing is read
		{"12345", false, false, true, true},
		{"123456", false, false, false, false},
		{"12345", true, true, true, true},
		{"123456", true, true, false, true},
		{"1234", false, true, true, true},
		{"12345", false, true, true, true},
		{"123456", false, true, false, true},
		{"123456789", false, true, false, true},
		{"", false, true, true, true},
	} {
		for _, trailer := range []http.Header{nil, {"X-Sum": {"1"}}} {
			length := int64(-1)
			if tt.known {
				length = int64(len(tt.text))
			}
			x := &pipeline.Exchange{
				Context: t.Context(), Body: io.NopCloser(strings.NewReader(tt.text)), ContentLength: length, Trailer: trailer,
			}
			body, whole, refusal := x.ReadBody(limit, tt.streams)
			call := fmt.Sprintf("ReadBody(%d, %t) of %q with the length %d", limit, tt.streams, tt.text, length)
			if refusal != nil {
				t.Errorf("%s = status %d, want no refusal", call, refusal.StatusCode)
				continue
			}
			if whole != tt.whole || whole && string(body) != tt.text {
				t.Errorf("%s = %q, %t, want the body and %t", call, body, whole, tt.whole)
			}
			if rest, err := io.ReadAll(x.Body); tt.readable && (string(rest) != tt.text || err != nil) {
				t.Errorf("%s: the handler reads %q, %v, want the whole body", call, rest, err)
			}
			wantLength := length
			if whole && trailer == nil { // a body with a trailer is sent in chunks
				wantLength = int64(len(tt.text))
			}
			if x.ContentLength != wantLength {
				t.Errorf("%s and the trailer %v: ContentLength = %d, want %d", call, trailer, x.ContentLength, wantLength)
			}
		}
	}
}

// TestReplaceBodyRemovesFieldsOfTheOldBody checks that the fields and the trailer that describe the old body are removed,
// and that the media type is kept.
func TestReplaceBodyRemovesFieldsOfTheOldBody(t *testing.T) {
	t.Parallel()
	old := &closeRecorder{Reader: strings.NewReader("old")}
	x := &pipeline.Exchange{
		Context: t.Context(), Header: bodyFields(), Body: old, ContentLength: 3, Trailer: http.Header{"X-Sum": {"1"}},
	}
	x.ReplaceBody([]byte("other"))
	if all, err := io.ReadAll(x.Body); string(all) != "other" || err != nil {
		t.Errorf("ReplaceBody(other): body = %q, %v, want %q", all, err, "other")
	}
	if x.ContentLength != 5 || x.Trailer != nil || !old.isClosed {
		t.Errorf("ReplaceBody(other): length = %d, trailer = %v, old body closed: %t, want 5, none and true",
			x.ContentLength, x.Trailer, old.isClosed)
	}
	wantFields(t, x.Header, "Content-Type: text/plain", "Content-Language: de", "X-Mine: yes")
}
