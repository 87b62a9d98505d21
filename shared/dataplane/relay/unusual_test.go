package relay_test

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// unusualResponses has responses of a service, with the status, body, trailer or failure that the client must receive.
var unusualResponses = []struct {
	name, response string
	status         int // 0 if the client receives a failure
	body           string
	breaks         bool // whether the body ends with an error
	trailer        string
	failure        tunnel.Failure
}{
	{name: "304 with a length", response: "304 Not Modified\r\nContent-Length: 7\r\nETag: \"a\"\r\n\r\n", status: 304},
	{name: "304", response: "304 Not Modified\r\nETag: \"a\"\r\n\r\n", status: 304},
	{name: "204 with a length", response: "204 No Content\r\nContent-Length: 7\r\n\r\n", status: 204},
	{
		name:     "an announced trailer that is missing",
		response: "200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\n\r\n", status: 200,
		body: "ok",
	},
	{name: "a trailer", response: "200 OK\r\nTransfer-Encoding: chunked\r\n" +
		"Trailer: X-Sum\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", status: 200, body: "ok", trailer: "7"},
	{
		name:     "an unannounced trailer",
		response: "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 7\r\n\r\n", status: 200, body: "ok",
		trailer: "7",
	},
	{
		name: "a response that breaks off before its body", response: "200 OK\r\nContent-Length: 9\r\n\r\n",
		failure: tunnel.Unreachable,
	},
	{
		name: "a response that breaks off", response: "200 OK\r\nContent-Length: 9\r\n\r\nok", status: 200, body: "ok",
		breaks: true,
	},
	{
		name: "chunks that break off", response: "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", status: 200,
		body: "ok", breaks: true,
	},
	{
		name:     "an unexpected switch of protocols",
		response: "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\nodd", failure: tunnel.Unusable,
	},
}

// TestUnusualResponsesAreForwarded checks that unusual but valid responses are forwarded unchanged,
// and that invalid responses are failures of the service. Each request must be sent once.
func TestUnusualResponsesAreForwarded(t *testing.T) {
	for _, tt := range unusualResponses {
		t.Run(tt.name, func(t *testing.T) {
			var received atomic.Int64
			service := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				received.Add(1)
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Errorf("Hijack() error = %v, want none", err)
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 "+tt.response)
				_ = conn.Close()
			})
			withFixture(t, service, func(fx *fixture) {
				_, _, clients := newCallers(fx)
				for caller, client := range clients {
					received.Store(0)
					response, err := client.RoundTrip(fx.request(http.MethodGet, "/", http.NoBody), account, "api", shop)
					if n := received.Load(); n != 1 {
						fx.Errorf("GET / by %s: requests at the service = %d, want 1", caller, n)
					}
					if tt.status == 0 {
						if failure, ok := errors.AsType[*tunnel.Error](err); !ok || failure.Failure != tt.failure {
							fx.Errorf("GET / by %s = %v, %v, want the failure %v", caller, response, err, tt.failure)
						}
						continue
					}
					if err != nil {
						fx.Errorf("RoundTrip() by %s: error = %v, want none", caller, err)
						continue
					}
					text, err := read(response, nil)
					if response.StatusCode != tt.status || text != tt.body || (err != nil) != tt.breaks ||
						response.Trailer.Get("X-Sum") != tt.trailer {
						fx.Errorf("GET / by %s: status = %d, body = %q, %v, trailer = %v, want %d %q, an error: %t, and X-Sum %q",
							caller, response.StatusCode, text, err, response.Trailer, tt.status, tt.body, tt.breaks, tt.trailer)
					}
				}
			})
		})
	}
}
