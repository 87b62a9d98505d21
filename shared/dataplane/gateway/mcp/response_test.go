package mcp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
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

// TestResponsesAreForwardedCompletelyOrNotAtAll checks that a truncated response is an error, that
// a response of the maximum length is forwarded, and that a response that can't be forwarded is
// not read. Its body is always closed, because otherwise its connection would stay open forever.
func TestResponsesAreForwardedCompletelyOrNotAtAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("the connection broke")
	for _, test := range []struct {
		name   string
		status int
		header http.Header
		body   io.Reader
		length int64
		data   int // bytes that are forwarded
		fault  string
	}{
		{name: "a complete response", status: 200, body: strings.NewReader("abc"), length: 3, data: 3},
		{
			name: "a response of the largest length", status: 200, body: bytes.NewReader(make([]byte, maxResponseBytes)),
			length: maxResponseBytes, data: maxResponseBytes,
		},
		{
			name: "a length over the largest", status: 200, body: iotest.ErrReader(errors.New("the body must not be read")),
			length: maxResponseBytes + 1, fault: "larger than",
		},
		{
			name: "broken off", status: 200, body: io.MultiReader(strings.NewReader(`{"paid":true}`), iotest.ErrReader(broken)),
			length: 100, fault: "broke off",
		},
		{name: "broken off at once", status: 200, body: iotest.ErrReader(broken), length: 100, fault: "broke off"},
		{
			name: "broken off while zipped", status: 200, header: http.Header{"Content-Encoding": {"gzip"}},
			body: strings.NewReader("\x1f\x8b\b\x00\x00\x00\x00\x00\x00\xff\x4a"), length: -1, fault: "broke off",
		},
		{
			name: "another protocol", status: http.StatusSwitchingProtocols,
			body: iotest.ErrReader(errors.New("the body must not be read")), length: -1, fault: "another protocol",
		},
		{
			name: "events", status: 200, header: http.Header{"Content-Type": {"text/event-stream"}},
			body: iotest.ErrReader(errors.New("the body must not be read")), length: -1, fault: "stream of events",
		},
	} {
		body := &closeRecorder{Reader: test.body}
		got := readResponse(&http.Response{
			StatusCode: test.status, Header: test.header, ContentLength: test.length,
			Body: body,
		})
		if got.ok() != (test.fault == "") || len(got.data) != test.data || !strings.Contains(got.fault, test.fault) {
			t.Errorf("readResponse(%s): ok = %t, length = %d, fault = %q, want length %d and fault %q (ok if empty)",
				test.name, got.ok(), len(got.data), got.fault, test.data, test.fault)
		}
		if !body.isClosed {
			t.Errorf("readResponse(%s): the body is open, want it closed", test.name)
		}
	}
}
