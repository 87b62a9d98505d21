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

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

func TestAnAnswerCountsWhatItSays(t *testing.T) {
	inHeader := map[string]any{"responseHeader": "x-units", "max": 50}
	inBody := map[string]any{"responseBody": "/usage/to~1tal", "max": 50}
	answer := func(status int, units, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if units != "" {
				w.Header().Set("X-Units", units)
			}
			w.WriteHeader(status)
			say(w, "%s", text)
		}
	}
	usage := func(value string) http.HandlerFunc { return answer(200, "", `{"usage":{"to/tal":`+value+`},"x":[1]}`) }
	large := strings.Repeat(" ", 1<<20)
	for _, test := range []struct {
		name   string
		amount map[string]any
		up     http.HandlerFunc
		method string
		used   int64
		log    string
	}{
		{"header", inHeader, answer(200, "12", ""), "GET", 12, ""},
		{"header of nothing", inHeader, answer(200, "0", ""), "GET", 0, ""},
		{"header of a float", inHeader, answer(200, " 1.2e1 ", ""), "GET", 12, ""},
		{"header of max", inHeader, answer(200, "50", ""), "GET", 50, ""},
		{"header above max", inHeader, answer(200, "51", ""), "GET", 50, "above max"},
		{"header far above max", inHeader, answer(200, "1e300", ""), "GET", 50, "above max"},
		{"no header", inHeader, answer(200, "", ""), "GET", 50, "does not say"},
		{"no header otherwise", map[string]any{"responseHeader": "x-units", "max": 50, "otherwise": 7}, answer(200, "", ""), "GET", 7, "does not say"},
		{"no header otherwise nothing", map[string]any{"responseHeader": "x-units", "max": 50, "otherwise": 0}, answer(201, "", ""), "POST", 0, "does not say"},
		{"header below nothing", inHeader, answer(200, "-1", ""), "GET", 50, "no whole number"},
		{"header of a part", inHeader, answer(200, "1.5", ""), "GET", 50, "no whole number"},
		{"header in hex", inHeader, answer(200, "0x10", ""), "GET", 50, "no whole number"},
		{"header of a word", inHeader, answer(200, "null", ""), "GET", 50, "no whole number"},
		{"two headers", inHeader, func(w http.ResponseWriter, _ *http.Request) { w.Header()["X-Units"] = []string{"1", "2"} }, "GET", 50, "no whole number"},
		{"a failure that says it", inHeader, answer(500, "3", ""), "GET", 3, ""},
		{"a failure", inHeader, answer(500, "", ""), "GET", 0, ""},
		{"a refusal", inHeader, answer(404, "", ""), "GET", 0, ""},
		{"a redirect", inHeader, answer(304, "", ""), "GET", 0, ""},
		{"body", inBody, usage("12"), "GET", 12, ""},
		{"body above max", inBody, usage("51"), "GET", 50, "above max"},
		{"body of a text", inBody, usage(`"12"`), "GET", 50, "no whole number"},
		{"body of null", inBody, usage("null"), "GET", 50, "no whole number"},
		{"body without it", inBody, answer(200, "", `{"usage":{}}`), "GET", 50, "does not say"},
		{"body with something else", inBody, answer(200, "", `{"usage":7}`), "GET", 50, "does not say"},
		{"body of a list", map[string]any{"responseBody": "/1", "max": 50}, answer(200, "", `[1,12]`), "GET", 12, ""},
		{"body of a short list", map[string]any{"responseBody": "/2", "max": 50}, answer(200, "", `[1,12]`), "GET", 50, "does not say"},
		{"body of a list by another name", map[string]any{"responseBody": "/01", "max": 50}, answer(200, "", `[1,12]`), "GET", 50, "does not say"},
		{"body that is no JSON", inBody, answer(200, "", "data: {}\n\n"), "GET", 50, "not JSON"},
		{"body that is large", inBody, answer(200, "", large+`{"usage":{"to/tal":12}}`), "GET", 50, "more than 1048576 bytes"},
		{"body that is large and of known length", inBody, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(large)+2))
			answer(200, "", large+"{}")(w, r)
		}, "GET", 50, "more than 1048576 bytes"},
		{"body that just fits", inBody, answer(200, "", large[30:]+`{"usage":{"to/tal":12}}`), "GET", 12, ""},
		{"no body", inBody, answer(204, "", ""), "GET", 50, "does not say"},
		{"a body of a failure that says it", inBody, answer(400, "", `{"usage":{"to/tal":3}}`), "GET", 3, ""},
		{"a body of a failure", inBody, answer(503, "", "away"), "GET", 0, ""},
		{"a body that is compressed", inBody, func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding") + r.Header.Get("Range") + r.Header.Get("If-Range"); got != "identity" {
				say(w, "was asked for %s", got) // counts all, and does not say that it is compressed
				return
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			say(z, `{"usage":{"to/tal":12}}`)
			_ = z.Close()
		}, "GET", 50, "compressed"},
		{"an answer that breaks off", inHeader, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "POST", 0, ""},
		{"a body that breaks off", inBody, func(w http.ResponseWriter, _ *http.Request) {
			say(w, `{"usage":{"to/tal":12}`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "GET", 50, "ended early"},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newQuotaHouse(t, test.up, map[string]int64{"units": 60}, map[string]any{"meters": map[string]any{"units": test.amount}})
			response := q.ask(t, test.method, "/x", header("Accept-Encoding", "gzip"), header("Range", "bytes=0-1"), header("If-Range", `"1"`))
			if got := response.Header.Get("RateLimit"); got != `"quota-units";r=10;t=90` {
				t.Errorf("told %q", got)
			}
			_, _ = io.Copy(io.Discard, response.Body) // it may break off
			want := map[string]int64{"units": test.used}
			if test.used == 0 {
				want = map[string]int64{}
			}
			q.wantUsed(t, want)
			if log := q.log.String(); strings.Contains(log, "amount not read") != (test.log != "") || !strings.Contains(log, test.log) {
				t.Errorf("the log has %s", log)
			}
		})
	}
}

func TestAnAmountIsTakenBeforeTheUpstreamIsAsked(t *testing.T) {
	q := newQuotaHouse(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Units", "10") },
		map[string]int64{"units": 60}, map[string]any{"meters": map[string]any{"units": map[string]any{"responseHeader": "X-Units", "max": 50}}})
	for _, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if got := q.ask(t, "GET", "/x").StatusCode; got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	q.wantUsed(t, map[string]int64{"units": 20})
	if q.asked != 2 {
		t.Errorf("the upstream was asked %d times", q.asked)
	}
}

// TestARepeatCountsTheAmountOfItsAnswer: which the upstream alone knows.
func TestARepeatCountsTheAmountOfItsAnswer(t *testing.T) {
	q := newQuotaHouse(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Units", "3") }, map[string]int64{"requests": 9, "units": 20},
		map[string]any{"meters": map[string]any{"requests": 1, "units": map[string]any{"responseHeader": "X-Units", "max": 5}}})
	for range 2 {
		wantProblem(t, q.ask(t, "POST", "/x", idempotent("key")), http.StatusOK, "")
	}
	q.wantUsed(t, map[string]int64{"requests": 1, "units": 6})
}

func TestAnAmountInABodyHoldsNothingBack(t *testing.T) {
	more := make(chan struct{})
	q := newQuotaHouse(t, func(w http.ResponseWriter, _ *http.Request) {
		say(w, `{"part":1,`)
		_ = http.NewResponseController(w).Flush()
		<-more
		say(w, `"units":4}`)
	}, map[string]int64{"units": 60}, map[string]any{"meters": map[string]any{"units": map[string]any{"responseBody": "/units", "max": 50}}})
	response := q.ask(t, "GET", "/x")
	first := make([]byte, len(`{"part":1,`))
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != `{"part":1,` {
		t.Errorf("got %q, %v", first, err)
	}
	close(more)
	if got := body(t, response); got != `"units":4}` {
		t.Errorf("got %q", got)
	}
	q.wantUsed(t, map[string]int64{"units": 4})
}

// TestAClientThatLeavesPaysForTheAnswer: the upstream may have done all that was asked.
func TestAClientThatLeavesPaysForTheAnswer(t *testing.T) {
	for name, amount := range map[string]map[string]any{
		"header": {"responseHeader": "X-Units", "max": 50},
		"body":   {"responseBody": "/units", "max": 50},
	} {
		t.Run(name, func(t *testing.T) {
			asked := make(chan struct{})
			q := newQuotaHouse(t, func(_ http.ResponseWriter, r *http.Request) {
				close(asked)
				<-r.Context().Done()
			}, map[string]int64{"units": 60}, map[string]any{"meters": map[string]any{"units": amount}})
			_, conn := raw(t, q.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer "+customerToken+"\r\n\r\n")
			<-asked
			_ = conn.Close()
			q.wantUsed(t, map[string]int64{"units": 50})
		})
	}
}

func TestASwitchOfProtocolsCountsTheAmountOfItsHeader(t *testing.T) {
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
				say(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Units: 3\r\n\r\nhello")
			})
			a := artifact(route("GET /x", forward(address), "key", "quota"))
			declare(a, "key", "api-key-inbound", map[string]any{})
			declare(a, "quota", "quota-inbound", map[string]any{"bucketId": "mtr_1", "meters": map[string]any{"units": test.amount}})
			q := newQuotaHouse(t, echo, map[string]int64{"units": 60}, nil)
			known := q.keys.known
			q.house = newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Subscriptions, c.Quotas = q, q })
			q.keys.known = known
			r, conn := raw(t, q.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nAuthorization: Bearer "+customerToken+"\r\n\r\n")
			response, err := http.ReadResponse(r, nil)
			if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
				t.Fatalf("got %v, %v", response, err)
			}
			hello := make([]byte, 5)
			if _, err := io.ReadFull(r, hello); err != nil || string(hello) != "hello" {
				t.Errorf("got %q, %v", hello, err)
			}
			_ = conn.Close()
			q.wantUsed(t, map[string]int64{"units": test.used})
		})
	}
}
