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

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// TestABodyWithoutRoomIsNotKept: a body for which there is no room passes whole, and nothing of it is kept.
func TestABodyWithoutRoomIsNotKept(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x"), 100_000)
	for _, room := range []int64{0, 50_000, 1 << 20} {
		taken, told := int64(0), -1
		b := &keptBody{
			ReadCloser: io.NopCloser(bytes.NewReader(text)), most: 1 << 20, ended: func(kept []byte) { told = len(kept) },
			room: func(n int64) bool {
				taken += n
				return taken <= room
			},
		}
		if passed, err := io.ReadAll(b); err != nil || len(passed) != len(text) {
			t.Errorf("ReadAll(room for %d) = %d bytes, %v, want %d", room, len(passed), err, len(text))
		}
		want := 0
		if room > int64(len(text)) {
			want = len(text)
		}
		if told != want || len(b.kept) != want {
			t.Errorf("with room for %d: kept bytes = %d, bytes passed to ended = %d, want %d", room, len(b.kept), told, want)
		}
	}
}

// TestKeptBodiesAreClosedWhileRead, as transports do where an answer comes before its request has been sent whole. The race detector looks on.
func TestKeptBodiesAreClosedWhileRead(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("x"), 10_000)
	for range 100 {
		var told [][]byte
		b := &keptBody{ReadCloser: io.NopCloser(bytes.NewReader(text)), most: 5_000, ended: func(kept []byte) { told = append(told, kept) }}
		var all sync.WaitGroup
		all.Go(func() {
			piece := make([]byte, 7)
			for {
				if _, err := b.Read(piece); err != nil {
					return
				}
			}
		})
		all.Go(func() { _ = b.Close() })
		all.Wait()
		if len(told) != 1 || len(told[0]) > 5_000 {
			t.Fatalf("told %d times, of %d bytes", len(told), len(b.kept))
		}
	}
}

// TestUnzippedBeginningIsBounded: what is looked at of an answer may unzip to a thousand times as much.
func TestUnzippedBeginningIsBounded(t *testing.T) {
	t.Parallel()
	const scan = 1 << 10
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte("x"), 100*scan))
	_ = z.Close()
	c := &counted{p: &graphQLAnalytics{scan: scan}, encoding: "gzip"}
	if n := len(c.plain(zipped.Bytes())); n != scan {
		t.Errorf("%d bytes are looked at, of %d at most", n, scan)
	}
}

// TestNoMoreIsKeptOfABodyThanIsLookedAt, in whatever pieces it comes, and nothing of it is held back.
func TestNoMoreIsKeptOfABodyThanIsLookedAt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ size, piece, want int }{{9, 4, 9}, {10, 4, 10}, {11, 4, 10}, {100, 4, 10}, {100, 100, 10}, {0, 4, 0}} {
		kept, told, passed := -1, 0, 0
		b := &keptBody{ReadCloser: io.NopCloser(bytes.NewReader(make([]byte, test.size))), most: 10, ended: func(all []byte) { kept, told = len(all), told+1 }}
		for {
			n, err := b.Read(make([]byte, test.piece))
			passed += n
			if err != nil {
				break
			}
		}
		_ = b.Close()
		if kept != test.want || told != 1 || passed != test.size {
			t.Errorf("of %d bytes in pieces of %d, %d have passed and %d are kept, told %d times", test.size, test.piece, passed, kept, told)
		}
	}
}

// switching is a handler, and the connection that it gives away.
type switching struct{ io.ReadWriteCloser }

// Handle implements pipeline.Handler.
func (s *switching) Handle(*pipeline.Exchange) *http.Response {
	return &http.Response{StatusCode: http.StatusSwitchingProtocols, Header: http.Header{}, Body: s}
}

// telling keeps the operations that it is told of.
type telling struct{ told []analytics.Operation }

// Operation implements Operations.
func (t *telling) Operation(o analytics.Operation) { t.told = append(t.told, o) }

// TestAConnectionThatIsGivenAwayStaysOne: its body is written to as well, which no reader in its place could.
func TestAConnectionThatIsGivenAwayStaysOne(t *testing.T) {
	t.Parallel()
	told, handler := &telling{}, &switching{}
	route := &pipeline.Route{Handler: handler, Outbound: []pipeline.Outbound{&graphQLAnalytics{operations: told, scan: 10, now: time.Now}}}
	x := &pipeline.Exchange{Context: t.Context(), Method: http.MethodPost, Header: http.Header{}, Body: http.NoBody, Start: time.Now(), Route: route}
	if response := route.Run(x); response.Body != io.ReadCloser(handler) || len(told.told) != 1 {
		t.Errorf("the connection is %T, and %d operations are told", response.Body, len(told.told))
	}
}

// reading is a handler that reads a request to its end.
type reading struct{}

// Handle implements pipeline.Handler.
func (reading) Handle(x *pipeline.Exchange) *http.Response {
	_, _ = io.Copy(io.Discard, x.Body)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(`{"data":{}}`))}
}

// TestOperationsAreKnownWhateverIsSaidOfTheirLength: bodies in chunks say nothing of it.
func TestOperationsAreKnownWhateverIsSaidOfTheirLength(t *testing.T) {
	t.Parallel()
	const text = `{"query":"query A{a}"}`
	for _, length := range []int64{int64(len(text)), -1} {
		told := &telling{}
		route := &pipeline.Route{Handler: reading{}, Outbound: []pipeline.Outbound{&graphQLAnalytics{operations: told, scan: 10, now: time.Now}}}
		x := &pipeline.Exchange{Context: t.Context(), Method: http.MethodPost, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(text)), ContentLength: length, Start: time.Now(), Route: route}
		response := route.Run(x)
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if len(told.told) != 1 || told.told[0].Name != "A" {
			t.Errorf("of a body whose length is %d, told are %+v", length, told.told)
		}
	}
}
