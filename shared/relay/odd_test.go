package relay_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestOddAnswersGoThroughAsTheyAre: those that HTTP allows are whole, others are the service's failure. Each is
// asked for once, and nobody waits for another connection.
func TestOddAnswersGoThroughAsTheyAre(t *testing.T) {
	for _, tt := range []struct {
		name, answer string
		status       int // 0 for a failure
		body         string
		breaks       bool
		trailer      string
		failure      tunnel.Failure
	}{
		{name: "304 with the length of what it stands for", answer: "304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n", status: 304},
		{name: "304", answer: "304 Not Modified\r\nETag: \"a\"\r\n\r\n", status: 304},
		{name: "204 with a length", answer: "204 No Content\r\nContent-Length: 7\r\n\r\n", status: 204},
		{name: "a trailer that does not come", answer: "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 200, body: "ok"},
		{name: "a trailer", answer: "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", status: 200, body: "ok", trailer: "7"},
		{name: "a trailer that nobody has announced", answer: "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", status: 200, body: "ok", trailer: "7"},
		{name: "one that breaks off before its first byte", answer: "200 OK\r\nContent-Length: 9\r\n\r\n", failure: tunnel.Unreachable},
		{name: "one that breaks off", answer: "200 OK\r\nContent-Length: 9\r\n\r\nok", status: 200, body: "ok", breaks: true},
		{name: "chunks that break off", answer: "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", status: 200, body: "ok", breaks: true},
		{name: "a switch that nobody asked for", answer: "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\nodd", failure: tunnel.Unusable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int64
			service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 "+tt.answer)
				_ = conn.Close()
			})
			inWorld(t, service, func(w *world) {
				_, _, by := ways(w)
				for way, by := range by {
					asked.Store(0)
					response, err := by.RoundTrip(w.request(http.MethodGet, "/", http.NoBody), account, "api", shop)
					if n := asked.Load(); n != 1 {
						w.Errorf("%s asks it %d times", way, n)
					}
					if tt.status == 0 {
						if failure, ok := errors.AsType[*tunnel.Error](err); !ok || failure.Failure != tt.failure {
							w.Errorf("%s answers %v, %v", way, response, err)
						}
						continue
					}
					if err != nil {
						w.Errorf("%s answers %v", way, err)
						continue
					}
					text, err := read(response, nil)
					if response.StatusCode != tt.status || text != tt.body || (err != nil) != tt.breaks || response.Trailer.Get("X-Sum") != tt.trailer {
						w.Errorf("%s answers %d %q, %v, with the trailer %v", way, response.StatusCode, text, err, response.Trailer)
					}
				}
			})
		})
	}
}
