package listen_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/listen"
)

func TestHTTP2IsServedAsHTTP1Is(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<17)
	s := multiplexing(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || r.TLS.ServerName != "localhost" || !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") {
			t.Errorf("the handshake is %+v, the client %s", r.TLS, r.RemoteAddr)
		}
		w.Header().Set("Trailer", "X-Size")
		n, err := io.Copy(w, r.Body)
		w.Header().Set("X-Size", fmt.Sprint(n, err))
	}, nil)
	by := s.transport(t)
	for range 3 { // 6 MB in all, by one connection
		response, body := s.ask(t, by, http.MethodPost, "/", long)
		if body != long || response.StatusCode != http.StatusOK || response.ProtoMajor != 2 || response.Trailer.Get("X-Size") != fmt.Sprint(len(long), nil) {
			t.Fatalf("%s %s, %d bytes, %v", response.Proto, response.Status, len(body), response.Trailer)
		}
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("there are %d connections", n)
	}
	by.CloseIdleConnections()
	eventually(t, func() bool { return s.Connections() == 0 })
}

// TestHTTP2HeadsAreHeldToTheRules of HTTP/1.1, or to those that it has itself. A stream that is
// refused costs the others nothing.
func TestHTTP2HeadsAreHeldToTheRules(t *testing.T) {
	with := func(more ...string) []string { return append(usual("/"), more...) }
	without := func(name string) (out []string) {
		for i, all := 0, usual("/"); i < len(all); i += 2 {
			if all[i] != name {
				out = append(out, all[i], all[i+1])
			}
		}
		return out
	}
	instead := func(name, value string) (out []string) {
		out = usual("/")
		for i := 0; i < len(out); i += 2 {
			if out[i] == name {
				out[i+1] = value
			}
		}
		return out
	}
	const problem, text = "application/problem+json", "text/plain; charset=utf-8"
	s := multiplexing(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || r.Header["Host"] != nil {
			t.Errorf("served is %s %s %v", r.Method, r.RequestURI, r.Header)
		}
	}, nil)
	f := s.dialFrames(t)
	for name, tt := range map[string]struct {
		fields []string
		want   told
	}{
		"usual":                        {usual("/"), told{status: "200"}},
		"trailers are taken":           {with("te", "trailers"), told{status: "200"}},
		"crumbs of a cookie":           {with("cookie", "a=1", "cookie", "b=2"), told{status: "200"}},
		"Host as :authority":           {with("host", "LOCALHOST"), told{status: "200"}},
		"Host in place of it":          {append(without(":authority"), "host", "localhost"), told{status: "200"}},
		"a length of nothing":          {with("content-length", "0"), told{status: "200"}},
		"another Host":                 {with("host", "evil.test"), told{status: "400", kind: problem}},
		"two Hosts":                    {with("host", "localhost", "host", "localhost"), told{status: "400", kind: problem}},
		"no host":                      {without(":authority"), told{status: "400", kind: problem}},
		"a host with an escape":        {instead(":authority", "a%2eb"), told{status: "400", kind: problem}},
		"a host with a path":           {instead(":authority", "localhost/x"), told{status: "400", kind: problem}},
		"a user before the host":       {instead(":authority", "a@localhost"), told{reset: true, code: http2.ErrCodeProtocol}},
		"two :authority":               {append([]string{":authority", "localhost"}, usual("/")...), told{reset: true, code: http2.ErrCodeProtocol}},
		"an address for a path":        {instead(":path", "http://evil.test/"), told{status: "400", kind: problem}},
		"a star for a path":            {instead(":path", "*"), told{status: "400", kind: problem}},
		"a path without a slash":       {instead(":path", "x"), told{reset: true, code: http2.ErrCodeProtocol}},
		"a bare percent sign":          {instead(":path", "/%"), told{reset: true, code: http2.ErrCodeProtocol}},
		"no path":                      {without(":path"), told{reset: true, code: http2.ErrCodeProtocol}},
		"no scheme":                    {without(":scheme"), told{reset: true, code: http2.ErrCodeProtocol}},
		"a space behind a method":      {instead(":method", "DELETE "), told{status: "400", kind: problem}},
		"a request for a method":       {instead(":method", "GET / HTTP/1.1"), told{status: "400", kind: problem}},
		"a method of another alphabet": {instead(":method", "GÉT"), told{status: "400", kind: problem}},
		"a method of letters":          {instead(":method", "PURGE"), told{status: "200"}},
		"no method":                    {without(":method"), told{reset: true, code: http2.ErrCodeProtocol}},
		"a field before a pseudo one":  {append([]string{"a", "b"}, usual("/")...), told{reset: true, code: http2.ErrCodeProtocol}},
		"a pseudo-field of none":       {append([]string{":status", "200"}, usual("/")...), told{reset: true, code: http2.ErrCodeProtocol}},
		"extended CONNECT":             {append([]string{":protocol", "websocket"}, instead(":method", "CONNECT")...), told{reset: true, code: http2.ErrCodeProtocol}},
		"a name in upper case":         {with("Upper", "x"), told{reset: true, code: http2.ErrCodeProtocol}},
		"a name with a space":          {with("a b", "x"), told{reset: true, code: http2.ErrCodeProtocol}},
		"a line in a value":            {with("x", "a\r\ny: b"), told{reset: true, code: http2.ErrCodeProtocol}},
		"Transfer-Encoding":            {with("transfer-encoding", "chunked"), told{status: "400", kind: text}},
		"Connection":                   {with("connection", "close"), told{status: "400", kind: text}},
		"Upgrade":                      {with("upgrade", "websocket"), told{status: "400", kind: text}},
		"another TE":                   {with("te", "gzip"), told{status: "400", kind: text}},
		"two lengths":                  {with("content-length", "0", "content-length", "0"), told{status: "400", kind: problem}},
		"a length that is none":        {with("content-length", "+1"), told{status: "400", kind: problem}},
		"a length and no body":         {with("content-length", "1"), told{status: "400", kind: problem}},
		"another expectation":          {with("expect", "200-ok"), told{status: "417", kind: problem}},
		"a long address":               {usual("/" + strings.Repeat("x", 64<<10)), told{status: "414", kind: problem}},
		"a long path":                  {usual("/" + strings.Repeat("x", 8<<10)), told{status: "414", kind: problem}},
		"a long path with a query":     {usual("/" + strings.Repeat("x", 8<<10) + "?a"), told{status: "414", kind: problem}},
		"a long query":                 {usual("/?" + strings.Repeat("x", 32<<10)), told{status: "200"}},
		"a long method":                {instead(":method", strings.Repeat("X", 65)), told{status: "501", kind: problem}},
		"a long host":                  {instead(":authority", strings.Repeat("a", 262)), told{status: "400", kind: problem}},
		"a large head":                 {with("x", strings.Repeat("x", 64<<10)), told{status: "431", kind: problem}},
		"a head that nobody reads on":  {with(strings.Split(strings.Repeat("x,"+strings.Repeat("x", 30<<10)+",", 5)+"x,", ",")...), told{status: "431", kind: "text/html; charset=utf-8"}},
		"a value without an end":       {with("x", strings.Repeat("x", 200<<10)), told{gone: true, code: http2.ErrCodeCompression}},
		"many fields":                  {with(strings.Split(strings.Repeat("x,y,", 200)+"x,y", ",")...), told{status: "431", kind: problem}},
		"a large head of small fields": {with(strings.Split(strings.Repeat("x,,", 150)+"x,", ",")...), told{status: "200"}},
	} {
		got := f.answer(f.request(false, tt.fields...))
		if got.kind == problem && !strings.Contains(got.body, `"status":`+got.status) {
			t.Errorf("%s: the problem is %s", name, got.body)
		}
		got.body = ""
		if tt.want.status == "200" {
			got.kind = ""
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
		if got.gone {
			f = s.dialFrames(t)
		}
		if got := f.answer(f.request(false, usual("/")...)); got.status != "200" {
			t.Fatalf("after %s: %+v", name, got)
		}
	}
	if got := f.answer(f.request(false, instead(":method", "OPTIONS")...)); got.status != "200" {
		t.Errorf("OPTIONS / is told %+v", got)
	}
	if got := f.answer(f.request(false, ":method", "OPTIONS", ":scheme", "https", ":authority", "localhost", ":path", "*")); got.status != "204" {
		t.Errorf("OPTIONS * is told %+v", got)
	}
}

// TestHTTP2HeadOfExactlyTheBoundPasses, which is the same one as by HTTP/1.1.
func TestHTTP2HeadOfExactlyTheBoundPasses(t *testing.T) {
	s := multiplexing(t, nil, func(http.ResponseWriter, *http.Request) {}, nil)
	head := func(fill int) string {
		return "GET / HTTP/1.1\r\nHost: localhost\r\nx: " + strings.Repeat("x", fill) + "\r\n\r\n"
	}
	fill := config.DefaultListener().HeaderBytes - len(head(0))
	f := s.dialFrames(t)
	for more, want := range map[int]string{0: "200", 1: "431"} {
		c := dialTLS(t, s.listener.Addr().String(), tlsOf(s))
		c.send(head(fill + more))
		response, _ := c.answer()
		got := f.answer(f.request(false, append(usual("/"), "x", strings.Repeat("x", fill+more))...))
		if got.status != want || response.Status[:3] != want {
			t.Errorf("with %d more it is %+v, by HTTP/1.1 %s, want %s", more, got, response.Status, want)
		}
	}
	for fields, want := range map[int]string{config.DefaultListener().HeaderFields - 1: "200", config.DefaultListener().HeaderFields: "431"} {
		var many []string
		for range fields {
			many = append(many, "x", "")
		}
		if got := f.answer(f.request(false, append(usual("/"), many...)...)); got.status != want {
			t.Errorf("with %d fields and a host: %+v, want %s", fields, got, want)
		}
	}
}

// TestHTTP2BodyOfAnotherSizeIsRefused: by lines the rest of it would be the next request.
func TestHTTP2BodyOfAnotherSizeIsRefused(t *testing.T) {
	s := multiplexing(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("the body is %q", body)
		}
	}, nil)
	f := s.dialFrames(t)
	for name, size := range map[string]string{"more": "2", "less": "4"} {
		id := f.request(true, append(posted("/"), "content-length", size)...)
		f.must(f.WriteData(id, true, []byte("abc")))
		if got := f.answer(id); name == "more" && got.code != http2.ErrCodeProtocol || name == "less" && got.gone {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestHTTP2NeedsTLS: its preface by plain HTTP, or where the handshake has led to HTTP/1.1, is a
// request of a version that is not spoken; a request to change to it is answered as it is.
func TestHTTP2NeedsTLS(t *testing.T) {
	protocols := make(chan string, 1)
	h := func(_ http.ResponseWriter, r *http.Request) { protocols <- r.Proto }
	plain := serve(t, h)
	dial(t, plain).send(http2.ClientPreface).refused(http.StatusHTTPVersionNotSupported)
	s := multiplexing(t, nil, h, nil)
	dialTLS(t, s.listener.Addr().String(), tlsOf(s)).send(http2.ClientPreface).refused(http.StatusHTTPVersionNotSupported)
	c := dial(t, plain).send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	if response, _ := c.answer(); response.StatusCode != http.StatusOK || <-protocols != "HTTP/1.1" {
		t.Errorf("a request to change is answered %s", response.Status)
	}
}

// TestHTTP2RequestForAnotherHostComesAgain where the server says so, with nothing done.
func TestHTTP2RequestForAnotherHostComesAgain(t *testing.T) {
	s := multiplexing(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if r.Host == "asks.test" {
			t.Error("it is served")
		}
	}, func(o *listen.Options) {
		o.Misdirected = func(r *http.Request) bool { return r.Host == "asks.test" && r.TLS.ServerName == "localhost" }
	})
	f := s.dialFrames(t)
	for host, want := range map[string]string{"localhost": "200", "asks.test": "421", "other.test": "200"} {
		fields := usual("/")
		fields[5] = host
		if got := f.answer(f.request(false, fields...)); got.status != want || want == "421" && got.kind != "application/problem+json" {
			t.Errorf("%s: %+v, want %s", host, got, want)
		}
	}
}
