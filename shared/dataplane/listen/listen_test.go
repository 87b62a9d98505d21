package listen_test

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// TestRefusedHeadGetsAProblemAndCloses checks that an invalid head gets a problem and ends its connection, and that the
// handler does not receive the request.
func TestRefusedHeadGetsAProblemAndCloses(t *testing.T) {
	addr := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the handler got a refused request, want none") })
	const get, post = "GET / HTTP/1.1\r\n", "POST / HTTP/1.1\r\nHost: a\r\n"
	for name, tc := range map[string]struct {
		raw    string
		status int
	}{
		"bare percent":                     {"GET /% HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"half an escape":                   {"GET /a%2 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"no host":                          {get + "\r\n", 400},
		"empty host":                       {get + "Host:\r\n\r\n", 400},
		"empty host in HTTP/1.0":           {"GET / HTTP/1.0\r\nHost: \r\n\r\n", 400},
		"two hosts":                        {get + "Host: a\r\nHost: a\r\n\r\n", 400},
		"host with letters behind a port":  {get + "Host: a.localhost:80x\r\n\r\n", 400},
		"host with two ports":              {get + "Host: a:80:90\r\n\r\n", 400},
		"host with a path":                 {get + "Host: a:80/path\r\n\r\n", 400},
		"host with a space":                {get + "Host: a b\r\n\r\n", 400},
		"host with letters behind IPv6":    {get + "Host: [::1]x\r\n\r\n", 400},
		"host with a user":                 {get + "Host: user@host\r\n\r\n", 400},
		"host with a large port":           {get + "Host: a:65536\r\n\r\n", 400},
		"target with a user":               {"GET http://user@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"target without a host":            {"GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"target of another scheme":         {"GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"target with letters after a port": {"GET http://a:80x/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"star for a GET":                   {"GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"two lengths":                      {post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"the same length twice":            {post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\na", 400},
		"list of lengths":                  {post + "Content-Length: 1, 1\r\n\r\na", 400},
		"signed length":                    {post + "Content-Length: +1\r\n\r\na", 400},
		"empty length":                     {post + "Content-Length:\r\n\r\n", 400},
		"endless length":                   {post + "Content-Length: 99999999999999999999\r\n\r\n", 400},
		"length and encoding":              {post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		"encoding and length":              {post + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400},
		"length and unknown encoding":      {post + "Content-Length: 3\r\ntransfer-encoding: x\r\n\r\nabc", 400},
		"encoding in HTTP/1.0": {
			"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
		},
		"two encodings": {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n0\r\n\r\n", 400},
		"unknown encoding":          {post + "Transfer-Encoding: gzip\r\n\r\n", 501},
		"list of encodings":         {post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
		"space before the colon":    {post + "Content-Length : 3\r\n\r\nabc", 400},
		"tab before the colon":      {post + "Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n", 400},
		"folded field":              {get + "Host: a\r\nA: b\r\n c\r\n\r\n", 400},
		"folded first field":        {get + " Host: a\r\n\r\n", 400},
		"field without a colon":     {get + "Host: a\r\nabc\r\n\r\n", 400},
		"field without a name":      {get + "Host: a\r\n: c\r\n\r\n", 400},
		"bare line feeds":           {"GET / HTTP/1.1\nHost: a\n\n", 400},
		"bare line feed in a field": {get + "Host: a\r\nA: b\nContent-Length: 3\r\n\r\n", 400},
		"bare carriage return":      {get + "Host: a\r\nA: b\rContent-Length: 3\r\n\r\n", 400},
		"control in a field":        {get + "Host: a\r\nA: \x01\r\n\r\n", 400},
		"no HTTP":                   {"hello\r\n\r\n", 400},
		"HTTP/0.9":                  {"GET /\r\n", 400},
		"two spaces":                {"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"space in the target":       {"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"unknown HTTP version":      {"GET / HTTP/3.7\r\nHost: a\r\n\r\n", 505},
		"preface of HTTP/2":         {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		"unknown expectation":       {post + "Content-Length: 1\r\nExpect: a-sandwich\r\n\r\n", 417},
		"second expectation":        {post + "Content-Length: 1\r\nExpect: 100-continue\r\nExpect: x\r\n\r\n", 417},
		"long address":              {"GET /" + strings.Repeat("x", 64<<10), 414},
		"long path":                 {"GET /" + strings.Repeat("x", 8<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414},
		"long path with a query":    {"GET /" + strings.Repeat("x", 8<<10) + "?a HTTP/1.1\r\nHost: a\r\n\r\n", 414},
		"long path of an absolute address": {
			"GET http://a/" + strings.Repeat("x", 8<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414,
		},
		"long method":                      {strings.Repeat("X", 65) + " / HTTP/1.1\r\nHost: a\r\n\r\n", 501},
		"long host":                        {get + "Host: " + strings.Repeat("a", 262) + "\r\n\r\n", 400},
		"long host of an absolute address": {"GET http://" + strings.Repeat("a", 262) + "/ HTTP/1.1\r\nHost: a\r\n\r\n", 400},
	} {
		if status, differs := standardStatus[name]; differs && isStandardRun(t) {
			tc.status = status
		}
		t.Run(name, func(t *testing.T) { dial(t, addr).send(tc.raw).wantRefusal(tc.status) })
	}
}

// TestOrdinaryRequestsAreServed checks that valid requests are served, regardless of how many bytes arrive at a time.
func TestOrdinaryRequestsAreServed(t *testing.T) {
	addr := serve(t, echo)
	longest := "/" + strings.Repeat("x", 8<<10-1)
	for name, tc := range map[string]struct{ raw, want string }{
		"GET":         {"GET /a?b=c HTTP/1.1\r\nHost: a\r\n\r\n", "GET a /a?b=c "},
		"HTTP/1.0":    {"GET / HTTP/1.0\r\n\r\n", "GET  / "},
		"HTTP/1.2":    {"GET / HTTP/1.2\r\nHost: a\r\n\r\n", "GET a / "},
		"port":        {"GET / HTTP/1.1\r\nHost: a.b:80\r\n\r\n", "GET a.b:80 / "},
		"IPv6":        {"GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET [::1]:80 / "},
		"length":      {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "POST a / abc"},
		"length of 0": {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "POST a / "},
		"chunked": {"POST / HTTP/1.1\r\nHost: a\r\ntransfer-encoding:\tChunked \r\n\r\n3;x=\"y\"\r\nabc\r\n1 " +
			" \r\nd\r\n000\r\nA: b\r\n\r\n", "POST a / abcd"},
		"absolute target": {"GET http://b:81/x HTTP/1.1\r\nHost: a\r\n\r\n", "GET b:81 http://b:81/x "},
		"line ends first": {"\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET a / "},
		"white space":     {"GET / HTTP/1.1\r\nHost: \t a \t \r\nA:\r\n\r\n", "GET a / "},
		"empty Expect":    {"GET / HTTP/1.1\r\nHost: a\r\nExpect: \r\n\r\n", "GET a / "},
		"longest path":    {"GET " + longest + "?b HTTP/1.1\r\nHost: a\r\n\r\n", "GET a " + longest + "?b "},
		"long query": {
			"GET /?" + strings.Repeat("x", 32<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n",
			"GET a /?" + strings.Repeat("x", 32<<10) + " ",
		},
		"absolute long path": {"GET http://b" + longest + " HTTP/1.1\r\nHost: a\r\n\r\n", "GET b http://b" + longest + " "},
		"many empty fields":  {"GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A:\r\n", 199) + "\r\n", "GET a / "},
	} {
		t.Run(name, func(t *testing.T) {
			for step, piece := range map[string]int{"at once": len(tc.raw), "in pieces of 1": 1, "in pieces of 7": 7} {
				c := dial(t, addr)
				for raw := tc.raw; raw != ""; {
					n := min(piece, len(raw))
					c.send(raw[:n])
					raw = raw[n:]
				}
				if response, body := c.readResponse(); response.StatusCode != http.StatusOK || body != tc.want {
					t.Errorf("sent %s: status = %s, body = %q, want 200 %q", step, response.Status, body, tc.want)
				}
			}
		})
	}
	response, _ := dial(t, addr).send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").readResponse()
	if response.StatusCode != http.StatusNoContent {
		t.Errorf("OPTIONS *: status = %s, want 204", response.Status)
	}
}

// TestHeadAtTheLimitIsAccepted checks that a head at the limits is
// accepted, and that a head with one more byte or field is refused.
func TestHeadAtTheLimitIsAccepted(t *testing.T) {
	addr := serve(t, echo)
	for _, body := range []string{"", "abc"} {
		begin := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + string(rune('0'+len(body))) + "\r\nA: "
		const end = "\r\n\r\n"
		fill := 64<<10 - len(begin) - len(end)
		response, _ := dial(t, addr).send(begin + strings.Repeat("x", fill) + end + body).readResponse()
		if response.StatusCode != http.StatusOK {
			t.Errorf("POST / with a head of 64 KiB and the body %q: status = %s, want 200", body, response.Status)
		}
		dial(t, addr).send(begin + strings.Repeat("x", fill+1) + end + body).wantRefusal(431)
	}
	const begin = "GET / HTTP/1.1\r\nHost: a\r\n"
	response, _ := dial(t, addr).send(begin + strings.Repeat("A: b\r\n", 199) + "\r\n").readResponse()
	if response.StatusCode != http.StatusOK {
		t.Errorf("GET / with 200 fields: status = %s, want 200", response.Status)
	}
	dial(t, addr).send(begin + strings.Repeat("A: b\r\n", 200) + "\r\n").wantRefusal(431)
	// A head is refused as soon as it is too large, even if it has no end.
	dial(t, addr).send(begin + "A: " + strings.Repeat("x", 64<<10)).wantRefusal(431)
	dial(t, addr).send(begin + strings.Repeat("A: b\r\n", 10_000)).wantRefusal(431)
}

// TestHeadLimitsComeFromSettings checks that a head above the limits of the settings is refused, although it is below
// the default limits.
func TestHeadLimitsComeFromSettings(t *testing.T) {
	addr := serve(t, echo, func(l *config.Listener) { l.HeaderBytes, l.HeaderFields = 2000, 10 })
	dial(t, addr).send("GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("x", 2000) + "\r\n\r\n").wantRefusal(431)
	dial(t, addr).send("GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("A: b\r\n", 10) + "\r\n").wantRefusal(431)
}

// TestHandlerResponseIsUnchanged checks that the server does not
// change a handler's response that looks like a refusal of net/http.
func TestHandlerResponseIsUnchanged(t *testing.T) {
	const refusal = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: " +
		"close\r\n\r\n400 Bad Request"
	body := (refusal + refusal + strings.Repeat("x", 5000))[:5000]
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		switch r.URL.Path {
		case "/status":
			http.Error(w, "of the handler", http.StatusBadRequest)
		case "/body": // with a Content-Length, the parts are written unchanged
			w.Header().Set("Content-Length", "5000")
			_ = control.Flush()
			_, _ = io.WriteString(w, body[:len(refusal)])
			_ = control.Flush()
			_, _ = io.WriteString(w, body[len(refusal):])
		case "/tunnel":
			conn, _, err := control.Hijack()
			if err != nil {
				t.Errorf("Hijack(GET /tunnel) error = %v, want none", err)
				return
			}
			_, _ = io.WriteString(conn, refusal)
			_ = conn.Close()
		}
	})
	c := dial(t, addr)
	for range 2 {
		response, text := c.send("GET /status HTTP/1.1\r\nHost: a\r\n\r\n").readResponse()
		if response.StatusCode != http.StatusBadRequest || text != "of the handler\n" {
			t.Errorf("GET /status: status = %s, body = %q, want 400 %q", response.Status, text, "of the handler\n")
		}
		if _, text = c.send("GET /body HTTP/1.1\r\nHost: a\r\n\r\n").readResponse(); text != body {
			t.Errorf("GET /body: body = %q, want %q", text, body)
		}
	}
	if all, err := io.ReadAll(c.send("GET /tunnel HTTP/1.1\r\nHost: a\r\n\r\n").r); err != nil || string(all) != refusal {
		t.Errorf("GET /tunnel = %q, %v, want %q", all, err, refusal)
	}
}

func TestPipelinedRequestsAreServedInOrder(t *testing.T) {
	addr := serve(t, echo)
	const get, post = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n", "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
	const chunked = "POST /3 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
	request, wants := get+post+"\r\n"+chunked, []string{"GET a /1 ", "POST a /2 abc", "POST a /3 abc"}
	if chunkedIsLast(t, chunked) {
		request, wants = get+post+"\r\n", wants[:2]
	}
	for _, piece := range []int{1 << 20, 1, 50, 4096} {
		c := dial(t, addr)
		go func() {
			for all := strings.Repeat(request, 50); all != ""; {
				n := min(piece, len(all))
				if _, err := io.WriteString(c, all[:n]); err != nil {
					t.Errorf("Write(pipelined requests in pieces of %d) error = %v, want none", piece, err)
					return
				}
				all = all[n:]
			}
		}()
		for range 50 {
			for _, want := range wants {
				if _, body := c.readResponse(); body != want {
					t.Fatalf("pipelined requests in pieces of %d: body = %q, want %q", piece, body, want)
				}
			}
		}
	}
}

// TestSecondRequestIsCheckedLikeTheFirst checks that an invalid request is refused even if it arrives together with a
// valid first request, for all framings of the first request. If the response to the first request is
// the last on its connection (chunkedIsLast), the second request gets no response.
func TestSecondRequestIsCheckedLikeTheFirst(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			t.Errorf("the handler got %s, want only /first", r.URL)
		}
		echo(w, r)
	})
	for _, first := range []string{
		"GET /first HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
		"POST /first HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
	} {
		for name, second := range map[string]string{
			"two framings": "POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 40\r\nTransfer-Encoding: " +
				"chunked\r\n\r\n0\r\n\r\nGET /third HTTP/1.1\r\nHost: a\r\n\r\n",
			"host":    "GET /second HTTP/1.1\r\nHost: a:80x\r\n\r\n",
			"bare LF": "GET /second HTTP/1.1\nHost: a\n\n",
		} {
			c := dial(t, addr).send(first + second)
			if response, _ := c.readResponse(); response.StatusCode != http.StatusOK {
				t.Errorf("first request %q, before %s: status = %s, want 200", first, name, response.Status)
			}
			if chunkedIsLast(t, first) {
				c.mustEnd()
				continue
			}
			c.wantRefusal(400)
		}
	}
}

// TestMalformedChunksCloseTheConnection checks that no bytes after a malformed chunk are served as a request.
func TestMalformedChunksCloseTheConnection(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			t.Errorf("the handler got %s, want only /first", r.URL)
		}
		if r.Header.Get("Duplex") != "" {
			_ = http.NewResponseController(w).EnableFullDuplex()
		}
		if r.Header.Get("Read") != "" {
			if _, err := io.ReadAll(r.Body); err == nil && r.URL.RawQuery != "accepted" {
				t.Errorf("ReadAll(%s with malformed chunks) error = nil, want an error", r.URL)
			}
		}
		w.WriteHeader(http.StatusOK)
	}, func(l *config.Listener) { l.BodyTimeout = 300 * time.Millisecond }) // for bodies that never arrive
	for _, fields := range []string{"", "Read: 1\r\n", "Duplex: 1\r\n", "Duplex: 1\r\nRead: 1\r\n"} {
		for _, body := range []string{
			"3\nabc\n0\n\n", "3\r\nabcd\r\n0\r\n\r\n", "g\r\n", "\r\n", "-1\r\n", "0x3\r\nabc\r\n0\r\n\r\n",
			"1000000000000000\r\n",
			"0\r\nA: b\n\n", "0\r\n A: b\r\n\r\n", "0\r\nA\r\n\r\n", "0\r\nA : b\r\n\r\n", "0\nA: b\r\n\r\n",
			"3;\nx\r\nabc\r\n0\r\n\r\n",
			"3;\rx\r\nabc\r\n0\r\n\r\n", "3;" + strings.Repeat("x", 4000) + "\r\nabc\r\n0\r\n\r\n",
			"0\r\nA: " + strings.Repeat("x", 4000) + "\r\n\r\n",
		} {
			query := ""
			if isStandardRun(t) && slices.Contains(standardChunks, body) {
				query = "?accepted"
			}
			c := dial(t, addr).send("POST /first" + query + " HTTP/1.1\r\nHost: a\r\n" + fields +
				"Transfer-Encoding: chunked\r\n\r\n" + body + "GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
			c.readResponse()
			if b, err := c.r.ReadByte(); err != io.EOF {
				t.Errorf("POST /first with the fields %q and the body %.40q: ReadByte() after the response = %q, %v, want EOF",
					fields, body, b, err)
			}
		}
	}
}

// TestPortInUseError checks the error for a port in use, and that the error for an invalid address names the setting.
func TestPortInUseError(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, err = listen.Open(t.Context(), l.Addr().String(), "the management API", "GATEWRIGHT_API_ADDR")
	want := l.Addr().String() + " for the management API is in use by another program: stop that program, or name " +
		"another address in GATEWRIGHT_API_ADDR"
	if err == nil || err.Error() != want {
		t.Errorf("Open(address in use) error = %v, want %q", err, want)
	}
	_, err = listen.Open(t.Context(), "no-port", "the management API", "GATEWRIGHT_API_ADDR")
	if err == nil || !strings.Contains(err.Error(), "GATEWRIGHT_API_ADDR") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Open(no-port) error = %v, want one line with GATEWRIGHT_API_ADDR", err)
	}
}

// TestTunnelReceivesEveryByte checks that a handler that hijacks a connection receives all bytes after the head,
// including line ends. The bytes arrive with the head, before the hijack, after the hijack, or in two parts.
func TestTunnelReceivesEveryByte(t *testing.T) {
	hijack := make(chan struct{}) // starts the hijack
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		<-hijack
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("Hijack() error = %v, want none", err)
			return
		}
		defer func() { _ = conn.Close() }()
		all, _ := io.ReadAll(buffered)
		_, _ = conn.Write(all)
	})
	const head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	for _, early := range []string{
		"", "a", "\r\n", "\n\n", "\r\n\r\n", "\r\n\r\na", "\r\n\r\n\r\n\r\n\r\n", "a\r\n",
		"\na\r\n\r\nb", "\x00\r\n", "GET / HTTP/1.1\r\n\r\n",
	} {
		for moment, parts := range map[string][3]string{
			"with the head": {head + early}, "before the hijack": {head, early},
			"in two parts": {head, early[:len(early)/2], early[len(early)/2:]}, "after the hijack": {head, "", early},
		} {
			c := dial(t, addr)
			for i, part := range parts {
				if i == 2 {
					hijack <- struct{}{}
				}
				c.send(part)
				time.Sleep(5 * time.Millisecond) // so that the parts arrive separately
			}
			_ = c.Conn.(*net.TCPConn).CloseWrite()
			if got, err := io.ReadAll(c.r); string(got) != early || err != nil {
				t.Errorf("%q sent %s: bytes from the tunnel = %q, %v, want the same bytes", early, moment, got, err)
			}
		}
	}
}

// TestLineEndsDuringAResponseAreSkipped checks that line ends before a request are
// skipped even if they arrive during the previous response (RFC 9112, section 2.2).
func TestLineEndsDuringAResponseAreSkipped(t *testing.T) {
	release := make(chan struct{}, 1)
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-release
		}
		echo(w, r)
	})
	c := dial(t, addr)
	for range 3 {
		c.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
		time.Sleep(5 * time.Millisecond)
		c.send("\r\n\r\n")
		release <- struct{}{}
		c.readResponse()
		if _, body := c.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n").readResponse(); body != "GET a /next " {
			t.Errorf("GET /next: body = %q, want %q", body, "GET a /next ")
		}
	}
}
