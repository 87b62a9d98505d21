package policy

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// TestBodyWithoutMemoryBudgetIsNotRecorded checks that a body passes completely, and that nothing of it is kept, if the
// budget has too little memory for a copy. With enough memory, the whole body is recorded.
func TestBodyWithoutMemoryBudgetIsNotRecorded(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x"), 100_000)
	for _, budget := range []int64{0, 50_000, 1 << 20} {
		reserved, recorded := int64(0), -1
		b := &recordedBody{
			ReadCloser: io.NopCloser(bytes.NewReader(text)), limit: 1 << 20, done: func(data []byte) { recorded = len(data) },
			reserve: func(n int64) bool {
				reserved += n
				return reserved <= budget
			},
		}
		if forwarded, err := io.ReadAll(b); err != nil || len(forwarded) != len(text) {
			t.Errorf("ReadAll(body with a budget of %d) = %d bytes, %v, want %d", budget, len(forwarded), err, len(text))
		}
		want := 0
		if budget > int64(len(text)) {
			want = len(text)
		}
		if recorded != want || len(b.data) != want {
			t.Errorf("budget of %d: recorded bytes = %d, bytes passed to done = %d, want %d",
				budget, len(b.data), recorded, want)
		}
	}
}

// TestRecordedBodyCanBeClosedWhileRead checks, with the race detector, that a body can be closed while it is
// read. Transports close a body when a response arrives before its request was sent completely.
func TestRecordedBodyCanBeClosedWhileRead(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x"), 10_000)
	for range 100 {
		var recorded [][]byte
		b := &recordedBody{ReadCloser: io.NopCloser(bytes.NewReader(text)), limit: 5_000, done: func(data []byte) {
			recorded = append(recorded, data)
		}}
		var wg sync.WaitGroup
		wg.Go(func() {
			piece := make([]byte, 7)
			for {
				if _, err := b.Read(piece); err != nil {
					return
				}
			}
		})
		wg.Go(func() { _ = b.Close() })
		wg.Wait()
		if len(recorded) != 1 || len(recorded[0]) > 5_000 {
			t.Fatalf("done was called %d times with %d bytes in all, want once and at most 5,000 bytes",
				len(recorded), len(bytes.Join(recorded, nil)))
		}
	}
}

// TestDecompressedPrefixIsBounded checks the limit on the decompressed bytes of
// a response's recorded part, which can decompress to a thousand times its size.
func TestDecompressedPrefixIsBounded(t *testing.T) {
	t.Parallel()
	const scan = 1 << 10
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte("x"), 100*scan))
	_ = z.Close()
	c := &observedRequest{p: &graphQLAnalytics{maxScanBytes: scan}, encoding: "gzip"}
	if n := len(c.decompress(zipped.Bytes())); n != scan {
		t.Errorf("decompress() = %d bytes, want %d", n, scan)
	}
}

// TestRecordedBodyIsLimited checks, for bodies and reads of different sizes, that recording stops at its limit, and
// that the reader still receives all bytes.
func TestRecordedBodyIsLimited(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ size, piece, want int }{
		{9, 4, 9},
		{10, 4, 10},
		{11, 4, 10},
		{100, 4, 10},
		{100, 100, 10},
		{0, 4, 0},
	} {
		recorded, doneCalls, forwarded := -1, 0, 0
		b := &recordedBody{
			ReadCloser: io.NopCloser(bytes.NewReader(make([]byte, test.size))), limit: 10,
			done: func(all []byte) { recorded, doneCalls = len(all), doneCalls+1 },
		}
		for {
			n, err := b.Read(make([]byte, test.piece))
			forwarded += n
			if err != nil {
				break
			}
		}
		_ = b.Close()
		if recorded != test.want || doneCalls != 1 || forwarded != test.size {
			t.Errorf("body of %d bytes in pieces of %d: forwarded = %d, recorded = %d, done calls = %d, want %d, %d and 1",
				test.size, test.piece, forwarded, recorded, doneCalls, test.size, test.want)
		}
	}
}

// switchingHandler is a handler that switches protocols. It is also the connection that it hands over.
type switchingHandler struct{ io.ReadWriteCloser }

// Handle implements pipeline.Handler.
func (s *switchingHandler) Handle(*pipeline.Exchange) *http.Response {
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: http.Header{}, Body: s}
}

// operationRecorder records operations.
type operationRecorder struct{ operations []analytics.Operation }

// Operation implements Operations.
func (r *operationRecorder) Operation(o analytics.Operation) { r.operations = append(r.operations, o) }

// TestSwitchedConnectionIsNotWrapped checks that the body of a response that switches
// protocols is not replaced: it is a connection, and the replacement could only be read.
func TestSwitchedConnectionIsNotWrapped(t *testing.T) {
	t.Parallel()
	recorder, handler := &operationRecorder{}, &switchingHandler{}
	route := &pipeline.Route{
		Handler:  handler,
		Outbound: []pipeline.Outbound{&graphQLAnalytics{operations: recorder, maxScanBytes: 10, now: time.Now}},
	}
	x := &pipeline.Exchange{
		Context: t.Context(), Method: http.MethodPost, Header: http.Header{}, Body: http.NoBody,
		Start: time.Now(), Route: route,
	}
	if response := route.Run(x); response.Body != io.ReadCloser(handler) || len(recorder.operations) != 1 {
		t.Errorf("Run() body = %T, operations = %d, want the connection unwrapped and 1",
			response.Body, len(recorder.operations))
	}
}

// readingHandler is a handler that reads a request's body to its end.
type readingHandler struct{}

// Handle implements pipeline.Handler.
func (readingHandler) Handle(x *pipeline.Exchange) *http.Response {
	_, _ = io.Copy(io.Discard, x.Body)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(`{"data":{}}`)),
	}
}

// TestOperationsOfChunkedBodiesAreRecorded checks that the operation
// of a chunked body is recorded although no length is declared.
func TestOperationsOfChunkedBodiesAreRecorded(t *testing.T) {
	t.Parallel()
	const text = `{"query":"query A{a}"}`
	for _, length := range []int64{int64(len(text)), -1} {
		recorder := &operationRecorder{}
		route := &pipeline.Route{
			Handler:  readingHandler{},
			Outbound: []pipeline.Outbound{&graphQLAnalytics{operations: recorder, maxScanBytes: 10, now: time.Now}},
		}
		x := &pipeline.Exchange{
			Context: t.Context(), Method: http.MethodPost, Header: http.Header{},
			Body: io.NopCloser(strings.NewReader(text)), ContentLength: length, Start: time.Now(), Route: route,
		}
		response := route.Run(x)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if len(recorder.operations) != 1 || recorder.operations[0].Name != "A" {
			t.Errorf("body of length %d: operations = %+v, want the name A", length, recorder.operations)
		}
	}
}
