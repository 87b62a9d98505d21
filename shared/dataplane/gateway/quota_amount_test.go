package gateway_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// amountCase is an amount in the options of the policy and a handler of the upstream, with the number of units that
// must be counted. log is a part of the expected log line, or "" for no line.
type amountCase struct {
	name    string
	amount  map[string]any
	handler http.HandlerFunc
	method  string
	used    int64
	log     string
}

// respondUnits returns a handler. The handler's response has the given text as its body, and units in the header
// X-Units, unless units is "".
func respondUnits(status int, units, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if units != "" {
			w.Header().Set("X-Units", units)
		}
		w.WriteHeader(status)
		writef(w, "%s", text)
	}
}

// respondUsage returns a handler that responds with value as the number of units in the body.
func respondUsage(value string) http.HandlerFunc {
	return respondUnits(200, "", `{"usage":{"to/tal":`+value+`},"x":[1]}`)
}

// amountsInHeaders returns cases whose amount is in a field of the header.
func amountsInHeaders() []amountCase {
	inHeader := map[string]any{"responseHeader": "x-units", "max": 50}
	return []amountCase{
		{"header", inHeader, respondUnits(200, "12", ""), "GET", 12, ""},
		{"header of 0", inHeader, respondUnits(200, "0", ""), "GET", 0, ""},
		{"header of a float", inHeader, respondUnits(200, " 1.2e1 ", ""), "GET", 12, ""},
		{"header of max", inHeader, respondUnits(200, "50", ""), "GET", 50, ""},
		{"header above max", inHeader, respondUnits(200, "51", ""), "GET", 50, "above max"},
		{"header far above max", inHeader, respondUnits(200, "1e300", ""), "GET", 50, "above max"},
		{"no header", inHeader, respondUnits(200, "", ""), "GET", 50, "does not say"},
		{
			"no header, with a default",
			map[string]any{"responseHeader": "x-units", "max": 50, "otherwise": 7},
			respondUnits(200, "", ""), "GET", 7, "does not say",
		},
		{
			"no header, with a default of 0",
			map[string]any{"responseHeader": "x-units", "max": 50, "otherwise": 0},
			respondUnits(201, "", ""), "POST", 0, "does not say",
		},
		{"negative header", inHeader, respondUnits(200, "-1", ""), "GET", 50, "no whole number"},
		{"header of a fraction", inHeader, respondUnits(200, "1.5", ""), "GET", 50, "no whole number"},
		{"header in hex", inHeader, respondUnits(200, "0x10", ""), "GET", 50, "no whole number"},
		{"header of a word", inHeader, respondUnits(200, "null", ""), "GET", 50, "no whole number"},
		{"two headers", inHeader, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Units"] = []string{"1", "2"}
		}, "GET", 50, "no whole number"},
		{"a failure with a header", inHeader, respondUnits(500, "3", ""), "GET", 3, ""},
		{"a failure", inHeader, respondUnits(500, "", ""), "GET", 0, ""},
		{"a refusal", inHeader, respondUnits(404, "", ""), "GET", 0, ""},
		{"status 304", inHeader, respondUnits(304, "", ""), "GET", 0, ""},
		{"no response", inHeader, func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, "POST", 0, ""},
	}
}

// amountsInBodies returns cases whose amount is in a JSON body.
func amountsInBodies() []amountCase {
	inBody := map[string]any{"responseBody": "/usage/to~1tal", "max": 50}
	large := strings.Repeat(" ", 1<<20)
	return []amountCase{
		{"body", inBody, respondUsage("12"), "GET", 12, ""},
		{"body above max", inBody, respondUsage("51"), "GET", 50, "above max"},
		{"body of a text", inBody, respondUsage(`"12"`), "GET", 50, "no whole number"},
		{"body of null", inBody, respondUsage("null"), "GET", 50, "no whole number"},
		{"body without the value", inBody, respondUnits(200, "", `{"usage":{}}`), "GET", 50, "does not say"},
		{"body with a number in place of an object", inBody, respondUnits(200, "", `{"usage":7}`), "GET", 50, "does not say"},
		{"body of a list", map[string]any{"responseBody": "/1", "max": 50}, respondUnits(200, "", `[1,12]`), "GET", 12, ""},
		{
			"body of a short list",
			map[string]any{"responseBody": "/2", "max": 50},
			respondUnits(200, "", `[1,12]`), "GET", 50,
			"does not say",
		},
		{
			"body of a list with a leading zero in the index",
			map[string]any{"responseBody": "/01", "max": 50},
			respondUnits(200, "", `[1,12]`), "GET", 50, "does not say",
		},
		{"body that is no JSON", inBody, respondUnits(200, "", "data: {}\n\n"), "GET", 50, "not JSON"},
		{
			"body that is large", inBody, respondUnits(200, "", large+`{"usage":{"to/tal":12}}`), "GET", 50,
			"more than 1048576 bytes",
		},
		{"body that is large and of known length", inBody, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(large)+2))
			respondUnits(200, "", large+"{}")(w, r)
		}, "GET", 50, "more than 1048576 bytes"},
		{"body that just fits", inBody, respondUnits(200, "", large[30:]+`{"usage":{"to/tal":12}}`), "GET", 12, ""},
		{"no body", inBody, respondUnits(204, "", ""), "GET", 50, "does not say"},
		{"a body of a failure with the value", inBody, respondUnits(400, "", `{"usage":{"to/tal":3}}`), "GET", 3, ""},
		{"a body of a failure", inBody, respondUnits(503, "", "unavailable"), "GET", 0, ""},
		{"a body that is compressed", inBody, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding") + r.Header.Get("Range") + r.Header.Get("If-Range"); got != "identity" {
				writef(w, "the upstream got %s", got) // fails the case, because the log line differs
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			writef(z, `{"usage":{"to/tal":12}}`)
			_ = z.Close()
		}, "GET", 50, "compressed"},
		{"a body that breaks off", inBody, func(w http.ResponseWriter, _ *http.Request) {
			writef(w, `{"usage":{"to/tal":12}`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "GET", 50, "ended early"},
	}
}

// TestResponseAmountIsCounted checks the counted units and the log of each case. The maximum of the amount must be
// reserved before the response.
func TestResponseAmountIsCounted(t *testing.T) {
	for _, test := range append(amountsInHeaders(), amountsInBodies()...) {
		t.Run(test.name, func(t *testing.T) {
			q := newQuotaFixture(t, test.handler, map[string]int64{"units": 60},
				map[string]any{"meters": map[string]any{"units": test.amount}})
			response := q.send(t, test.method, "/x", header("Accept-Encoding", "gzip"), header("Range", "bytes=0-1"),
				header("If-Range", `"1"`))
			if got := response.Header.Get("RateLimit"); got != `"quota-units";r=10;t=90` {
				t.Errorf("%s /x: RateLimit = %q, want 10 remaining units and 90 seconds", test.method, got)
			}
			_, _ = io.Copy(io.Discard, response.Body) // the body can break off
			want := map[string]int64{"units": test.used}
			if test.used == 0 {
				want = map[string]int64{}
			}
			q.wantUsed(t, want)
			if log := q.log.String(); strings.Contains(log, "amount not read") != (test.log != "") ||
				!strings.Contains(log, test.log) {
				t.Errorf("%s /x: log = %s, want \"amount not read\" only with an expected line, %q", test.method, log, test.log)
			}
		})
	}
}

func TestMaxAmountIsReservedBeforeTheRequest(t *testing.T) {
	q := newQuotaFixture(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Units", "10") },
		map[string]int64{"units": 60},
		map[string]any{"meters": map[string]any{"units": map[string]any{"responseHeader": "X-Units", "max": 50}}})
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := q.send(t, "GET", "/x").StatusCode; got != want {
			t.Errorf("GET /x: status = %d, want %d", got, want)
		}
	}
	q.wantUsed(t, map[string]int64{"units": 20})
	if q.upstreamRequests != 2 {
		t.Errorf("GET /x until the quota is used up: requests at the upstream = %d, want 2", q.upstreamRequests)
	}
}

// TestRepeatedRequestCountsItsOwnAmount checks that a request and its repeat
// count as one request, but that the amount of each response is counted.
func TestRepeatedRequestCountsItsOwnAmount(t *testing.T) {
	q := newQuotaFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Units", "3")
	}, map[string]int64{"requests": 9, "units": 20},
		map[string]any{"meters": map[string]any{
			"requests": 1,
			"units":    map[string]any{"responseHeader": "X-Units", "max": 5},
		}})
	for range 2 {
		wantProblem(t, q.send(t, "POST", "/x", idempotencyKey("key")), http.StatusOK, "")
	}
	q.wantUsed(t, map[string]int64{"requests": 1, "units": 6})
}

func TestAmountInBodyDoesNotDelayTheResponse(t *testing.T) {
	more := make(chan struct{})
	q := newQuotaFixture(t, func(w http.ResponseWriter, _ *http.Request) {
		writef(w, `{"part":1,`)
		_ = http.NewResponseController(w).Flush()
		<-more
		writef(w, `"units":4}`)
	}, map[string]int64{"units": 60},
		map[string]any{"meters": map[string]any{"units": map[string]any{"responseBody": "/units", "max": 50}}})
	response := q.send(t, "GET", "/x")
	first := make([]byte, len(`{"part":1,`))
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != `{"part":1,` {
		t.Errorf("GET /x: first part of the body = %q, %v, want it before the amount is read", first, err)
	}
	close(more)
	if got := body(t, response); got != `"units":4}` {
		t.Errorf("GET /x: rest of the body = %q, want the units", got)
	}
	q.wantUsed(t, map[string]int64{"units": 4})
}

// TestDisconnectedClientIsChargedTheAmount checks that the maximum amount is counted if a
// client disconnects before the response, because the upstream may have done all the work.
func TestDisconnectedClientIsChargedTheAmount(t *testing.T) {
	for name, amount := range map[string]map[string]any{
		"header": {"responseHeader": "X-Units", "max": 50},
		"body":   {"responseBody": "/units", "max": 50},
	} {
		t.Run(name, func(t *testing.T) {
			received := make(chan struct{})
			q := newQuotaFixture(t, func(_ http.ResponseWriter, r *http.Request) {
				close(received)
				<-r.Context().Done()
			}, map[string]int64{"units": 60}, map[string]any{"meters": map[string]any{"units": amount}})
			_, conn := sendRaw(t, q.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer "+customerToken+"\r\n\r\n")
			<-received
			_ = conn.Close()
			q.wantUsed(t, map[string]int64{"units": 50})
		})
	}
}

// TestUpgradeCountsTheHeaderAmount checks that the amount in the header of a response that switches protocols is
// counted. If the amount is expected in the body, the maximum must be counted.
func TestUpgradeCountsTheHeaderAmount(t *testing.T) {
	for name, test := range map[string]struct {
		amount map[string]any
		used   int64
	}{
		"header": {map[string]any{"responseHeader": "X-Units", "max": 50}, 3},
		"body":   {map[string]any{"responseBody": "/units", "max": 50}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			address := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
				_, _ = http.ReadRequest(r)
				writef(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Units: "+
					"3\r\n\r\nhello")
			})
			a := artifact(route("GET /x", forward(address), "key", "quota"))
			declare(a, "key", "api-key-inbound", map[string]any{})
			declare(a, "quota", "quota-inbound",
				map[string]any{"bucketId": "mtr_1", "meters": map[string]any{"units": test.amount}})
			q := newQuotaFixture(t, echo, map[string]int64{"units": 60}, nil)
			known := q.keys.known
			q.fixture = newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Subscriptions, c.Quotas = q, q })
			q.keys.known = known
			r, conn := sendRaw(t, q.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: "+
				"websocket\r\nAuthorization: Bearer "+customerToken+"\r\n\r\n")
			readSwitch(t, r)
			hello := make([]byte, 5)
			if _, err := io.ReadFull(r, hello); err != nil || string(hello) != "hello" {
				t.Errorf("GET /x with Upgrade: data of the switched connection = %q, %v, want %q", hello, err, "hello")
			}
			_ = conn.Close()
			q.wantUsed(t, map[string]int64{"units": test.used})
		})
	}
}
