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

// closed is a body that knows whether it was closed.
type closed struct {
	io.Reader
	done bool
}

// Close implements io.Closer.
func (b *closed) Close() error {
	b.done = true
	return nil
}

// TestAnswersArePassedOnWholeOrNotAtAll: what has broken off is no answer, one of the largest length is, and what
// can't be passed on is not read. The body is closed in any case, or its connection would be kept for ever.
func TestAnswersArePassedOnWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	broken := errors.New("the connection broke")
	for _, test := range []struct {
		name   string
		status int
		header http.Header
		body   io.Reader
		length int64
		data   int // bytes that are passed on
		fault  string
	}{
		{name: "whole", status: 200, body: strings.NewReader("abc"), length: 3, data: 3},
		{name: "of the largest length", status: 200, body: bytes.NewReader(make([]byte, maxAnswerBytes)), length: maxAnswerBytes, data: maxAnswerBytes},
		{name: "larger by its length", status: 200, body: iotest.ErrReader(errors.New("nobody was to read this")), length: maxAnswerBytes + 1, fault: "larger than"},
		{name: "broken off", status: 200, body: io.MultiReader(strings.NewReader(`{"paid":true}`), iotest.ErrReader(broken)), length: 100, fault: "broke off"},
		{name: "broken off at once", status: 200, body: iotest.ErrReader(broken), length: 100, fault: "broke off"},
		{name: "broken off while zipped", status: 200, header: http.Header{"Content-Encoding": {"gzip"}}, body: strings.NewReader("\x1f\x8b\b\x00\x00\x00\x00\x00\x00\xff\x4a"), length: -1, fault: "broke off"},
		{name: "another protocol", status: http.StatusSwitchingProtocols, body: iotest.ErrReader(errors.New("nobody was to read this")), length: -1, fault: "another protocol"},
		{name: "events", status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, body: iotest.ErrReader(errors.New("nobody was to read this")), length: -1, fault: "stream of events"},
	} {
		body := &closed{Reader: test.body}
		a := read(&http.Response{StatusCode: test.status, Header: test.header, ContentLength: test.length, Body: body})
		if a.ok() != (test.fault == "") || len(a.data) != test.data || !strings.Contains(a.fault, test.fault) {
			t.Errorf("%s: ok %t, %d bytes, fault %q", test.name, a.ok(), len(a.data), a.fault)
		}
		if !body.done {
			t.Errorf("%s: the body is left open", test.name)
		}
	}
}
