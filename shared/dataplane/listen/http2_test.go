package listen_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// TestHTTP2ServesBodiesAndTrailers checks that one connection serves several requests with long bodies, whose
// responses have trailers, and that the connection is no longer counted after the client has closed it.
func TestHTTP2ServesBodiesAndTrailers(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 1<<17)
	s := newHTTP2Server(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || r.TLS.ServerName != "localhost" || !strings.HasPrefix(r.RemoteAddr, "127.0.0.1:") {
			t.Errorf("TLS = %+v, remote address = %s, want the server name localhost and 127.0.0.1", r.TLS, r.RemoteAddr)
		}
		w.Header().Set("Trailer", "X-Size")
		n, err := io.Copy(w, r.Body)
		w.Header().Set("X-Size", fmt.Sprint(n, err))
	}, nil)
	transport := s.transport(t)
	for range 3 { // 6 MB in total, over one connection
		response, body := s.do(t, transport, http.MethodPost, "/", long)
		if body != long || response.StatusCode != http.StatusOK || response.ProtoMajor != 2 ||
			response.Trailer.Get("X-Size") != fmt.Sprint(len(long), nil) {
			t.Fatalf("POST /: %s %s, %d bytes (as sent: %t), trailer = %v, want HTTP/2 200, the %d bytes sent and X-Size",
				response.Proto, response.Status, len(body), body == long, response.Trailer, len(long))
		}
	}
	if n := s.Connections(); n != 1 {
		t.Errorf("Connections() = %d, want 1", n)
	}
	transport.CloseIdleConnections()
	eventually(t, func() bool { return s.Connections() == 0 })
}

// getFieldsWith returns getFields("/") followed by more fields.
func getFieldsWith(more ...string) []string { return append(getFields("/"), more...) }

// getFieldsWithout returns getFields("/") without one field.
func getFieldsWithout(name string) (out []string) {
	for i, all := 0, getFields("/"); i < len(all); i += 2 {
		if all[i] != name {
			out = append(out, all[i], all[i+1])
		}
	}
	return out
}

// getFieldsReplacing returns getFields("/") with another value of one field.
func getFieldsReplacing(name, value string) (out []string) {
	out = getFields("/")
	for i := 0; i < len(out); i += 2 {
		if out[i] == name {
			out[i+1] = value
		}
	}
	return out
}

const problemType, textType = "application/problem+json", "text/plain; charset=utf-8"

// http2Head has the fields of a request, and the expected result.
type http2Head struct {
	fields []string
	want   streamResult
}

// http2Heads returns heads with their expected results. The keys describe the heads.
func http2Heads() map[string]http2Head {
	ok, protocolError := streamResult{status: "200"}, streamResult{reset: true, code: http2.ErrCodeProtocol}
	badRequest := streamResult{status: "400", contentType: problemType}
	plainBadRequest := streamResult{status: "400", contentType: textType}
	tooLong := streamResult{status: "414", contentType: problemType}
	tooLarge := streamResult{status: "431", contentType: problemType}
	// repeated returns getFields("/") followed by n fields with this name and value.
	repeated := func(n int, name, value string) []string {
		return getFieldsWith(slices.Repeat([]string{name, value}, n)...)
	}
	return map[string]http2Head{
		"usual fields":                  {getFields("/"), ok},
		"accepted trailers":             {getFieldsWith("te", "trailers"), ok},
		"a cookie in two fields":        {getFieldsWith("cookie", "a=1", "cookie", "b=2"), ok},
		"Host equal to :authority":      {getFieldsWith("host", "LOCALHOST"), ok},
		"Host in place of :authority":   {append(getFieldsWithout(":authority"), "host", "localhost"), ok},
		"a length of 0":                 {getFieldsWith("content-length", "0"), ok},
		"another Host":                  {getFieldsWith("host", "evil.test"), badRequest},
		"two Hosts":                     {getFieldsWith("host", "localhost", "host", "localhost"), badRequest},
		"no host":                       {getFieldsWithout(":authority"), badRequest},
		"a host with an escape":         {getFieldsReplacing(":authority", "a%2eb"), badRequest},
		"a host with a path":            {getFieldsReplacing(":authority", "localhost/x"), badRequest},
		"a user before the host":        {getFieldsReplacing(":authority", "a@localhost"), protocolError},
		"two :authority":                {append([]string{":authority", "localhost"}, getFields("/")...), protocolError},
		"an absolute URL as the path":   {getFieldsReplacing(":path", "http://evil.test/"), badRequest},
		"an asterisk as the path":       {getFieldsReplacing(":path", "*"), badRequest},
		"a path without a slash":        {getFieldsReplacing(":path", "x"), protocolError},
		"a bare percent sign":           {getFieldsReplacing(":path", "/%"), protocolError},
		"no path":                       {getFieldsWithout(":path"), protocolError},
		"no scheme":                     {getFieldsWithout(":scheme"), protocolError},
		"a space after a method":        {getFieldsReplacing(":method", "DELETE "), badRequest},
		"a request line as the method":  {getFieldsReplacing(":method", "GET / HTTP/1.1"), badRequest},
		"a method beyond ASCII":         {getFieldsReplacing(":method", "GÉT"), badRequest},
		"an unknown method":             {getFieldsReplacing(":method", "PURGE"), ok},
		"no method":                     {getFieldsWithout(":method"), protocolError},
		"a field before a pseudo-field": {append([]string{"a", "b"}, getFields("/")...), protocolError},
		"a pseudo-field of responses":   {append([]string{":status", "200"}, getFields("/")...), protocolError},
		"extended CONNECT": {append([]string{":protocol", "websocket"},
			getFieldsReplacing(":method", "CONNECT")...), protocolError},
		"a name in upper case":    {getFieldsWith("Upper", "x"), protocolError},
		"a name with a space":     {getFieldsWith("a b", "x"), protocolError},
		"a line break in a value": {getFieldsWith("x", "a\r\ny: b"), protocolError},
		"Transfer-Encoding":       {getFieldsWith("transfer-encoding", "chunked"), plainBadRequest},
		"Connection":              {getFieldsWith("connection", "close"), plainBadRequest},
		"Upgrade":                 {getFieldsWith("upgrade", "websocket"), plainBadRequest},
		"another TE":              {getFieldsWith("te", "gzip"), plainBadRequest},
		"two lengths":             {getFieldsWith("content-length", "0", "content-length", "0"), badRequest},
		"an invalid length":       {getFieldsWith("content-length", "+1"), badRequest},
		"a length and no body":    {getFieldsWith("content-length", "1"), badRequest},
		"another expectation": {
			getFieldsWith("expect", "200-ok"), streamResult{status: "417", contentType: problemType},
		},
		"a path of 64 KiB":         {getFields("/" + strings.Repeat("x", 64<<10)), tooLong},
		"a long path":              {getFields("/" + strings.Repeat("x", 8<<10)), tooLong},
		"a long path with a query": {getFields("/" + strings.Repeat("x", 8<<10) + "?a"), tooLong},
		"a long query":             {getFields("/?" + strings.Repeat("x", 32<<10)), ok},
		"a long method": {
			getFieldsReplacing(":method", strings.Repeat("X", 65)), streamResult{status: "501", contentType: problemType},
		},
		"a long host":  {getFieldsReplacing(":authority", strings.Repeat("a", 262)), badRequest},
		"a large head": {getFieldsWith("x", strings.Repeat("x", 64<<10)), tooLarge},
		"a head beyond the limit of net/http": {
			append(repeated(5, "x", strings.Repeat("x", 30<<10)), "x", ""),
			streamResult{status: "431", contentType: "text/html; charset=utf-8"},
		},
		"a value beyond the limit of net/http": {
			getFieldsWith("x", strings.Repeat("x", 200<<10)), streamResult{closed: true, code: http2.ErrCodeCompression},
		},
		"many fields":                  {repeated(201, "x", "y"), tooLarge},
		"a large head of small fields": {repeated(151, "x", ""), ok},
	}
}

// TestHTTP2HeadRules checks the result of each head of http2Heads, and that the connection serves
// a request after it, or a new connection if the head closed it.
func TestHTTP2HeadRules(t *testing.T) {
	s := newHTTP2Server(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" || r.Header["Host"] != nil {
			t.Errorf("the handler got %s %s with %v, want / without Host", r.Method, r.RequestURI, r.Header)
		}
	}, nil)
	f := s.dialFrames(t)
	for name, tt := range http2Heads() {
		got := f.waitResult(f.request(false, tt.fields...))
		if got.contentType == problemType && !strings.Contains(got.body, `"status":`+got.status) {
			t.Errorf("%s: problem = %s, want status %s", name, got.body, got.status)
		}
		got.body = ""
		if tt.want.status == "200" {
			got.contentType = ""
		}
		if got != tt.want {
			t.Errorf("%s: result = %+v, want %+v", name, got, tt.want)
		}
		if got.closed {
			f = s.dialFrames(t)
		}
		if got := f.waitResult(f.request(false, getFields("/")...)); got.status != "200" {
			t.Fatalf("GET / after %s: result = %+v, want status 200", name, got)
		}
	}
	if got := f.waitResult(f.request(false, getFieldsReplacing(":method", "OPTIONS")...)); got.status != "200" {
		t.Errorf("OPTIONS /: result = %+v, want status 200", got)
	}
	if got := f.waitResult(f.request(false, ":method", "OPTIONS", ":scheme", "https", ":authority", "localhost", ":path",
		"*")); got.status != "204" {
		t.Errorf("OPTIONS *: result = %+v, want status 204", got)
	}
}

// TestHTTP2HeadAtTheLimitIsAccepted checks that the maximum size of a head is the same as
// with HTTP/1.1, and that the host counts for the maximum number of fields.
func TestHTTP2HeadAtTheLimitIsAccepted(t *testing.T) {
	s := newHTTP2Server(t, nil, func(http.ResponseWriter, *http.Request) {}, nil)
	head := func(fill int) string {
		return "GET / HTTP/1.1\r\nHost: localhost\r\nx: " + strings.Repeat("x", fill) + "\r\n\r\n"
	}
	fill := config.DefaultListener().HeaderBytes - len(head(0))
	f := s.dialFrames(t)
	for more, want := range map[int]string{0: "200", 1: "431"} {
		c := dialTLS(t, s.listener.Addr().String(), http1TLSConfig(s))
		c.send(head(fill + more))
		response, _ := c.readResponse()
		got := f.waitResult(f.request(false, append(getFields("/"), "x", strings.Repeat("x", fill+more))...))
		if got.status != want || response.Status[:3] != want {
			t.Errorf("%d bytes over the limit: result = %+v, HTTP/1.1 status = %s, want %s", more, got, response.Status, want)
		}
	}
	for fields, want := range map[int]string{
		config.DefaultListener().HeaderFields - 1: "200",
		config.DefaultListener().HeaderFields:     "431",
	} {
		var many []string
		for range fields {
			many = append(many, "x", "")
		}
		if got := f.waitResult(f.request(false, append(getFields("/"), many...)...)); got.status != want {
			t.Errorf("with %d fields and a host: %+v, want %s", fields, got, want)
		}
	}
}

// TestHTTP2BodyLengthMismatchIsRefused checks that a handler cannot read a body whose length differs from the
// Content-Length: a gateway that forwards it over HTTP/1.1 could send the rest of the body as another request.
// If the body is longer, the request ends with a protocol error. If it is shorter, the connection stays open.
func TestHTTP2BodyLengthMismatchIsRefused(t *testing.T) {
	s := newHTTP2Server(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil {
			t.Errorf("ReadAll(body of another length) = %q, want an error", body)
		}
	}, nil)
	f := s.dialFrames(t)
	for name, size := range map[string]string{"longer": "2", "shorter": "4"} {
		id := f.request(true, append(postFields("/"), "content-length", size)...)
		f.must(f.WriteData(id, true, []byte("abc")))
		got := f.waitResult(id)
		if name == "longer" && got.code != http2.ErrCodeProtocol {
			t.Errorf("body longer than its Content-Length: result = %+v, want a protocol error", got)
		}
		if name == "shorter" && got.closed {
			t.Errorf("body shorter than its Content-Length: result = %+v, want an open connection", got)
		}
	}
}

// TestHTTP2NeedsTLS checks that the preface over plain HTTP, or after a handshake for HTTP/1.1, is
// refused as an unsupported version. A request to upgrade to HTTP/2 is served as an ordinary request.
func TestHTTP2NeedsTLS(t *testing.T) {
	protocols := make(chan string, 1)
	h := func(_ http.ResponseWriter, r *http.Request) { protocols <- r.Proto }
	plain := serve(t, h)
	dial(t, plain).send(http2.ClientPreface).wantRefusal(http.StatusHTTPVersionNotSupported)
	s := newHTTP2Server(t, nil, h, nil)
	dialTLS(t, s.listener.Addr().String(),
		http1TLSConfig(s)).send(http2.ClientPreface).wantRefusal(http.StatusHTTPVersionNotSupported)
	c := dial(t, plain).send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: " +
		"h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n")
	if response, _ := c.readResponse(); response.StatusCode != http.StatusOK {
		t.Fatalf("GET / with Upgrade: h2c: status = %s, want 200", response.Status)
	}
	if protocol := <-protocols; protocol != "HTTP/1.1" {
		t.Errorf("GET / with Upgrade: h2c: protocol of the request = %s, want HTTP/1.1", protocol)
	}
}

// TestHTTP2MisdirectedRequestIsRefused checks that a request for which Misdirected returns true gets a
// 421, so that clients repeat it on another connection, and that the handler does not receive the request.
func TestHTTP2MisdirectedRequestIsRefused(t *testing.T) {
	s := newHTTP2Server(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if r.Host == "misdirected.test" {
			t.Error("the handler got a request of misdirected.test, want it refused as misdirected")
		}
	}, func(o *listen.Options) {
		o.Misdirected = func(r *http.Request) bool { return r.Host == "misdirected.test" && r.TLS.ServerName == "localhost" }
	})
	f := s.dialFrames(t)
	for host, want := range map[string]string{"localhost": "200", "misdirected.test": "421", "other.test": "200"} {
		if got := f.waitResult(f.request(false, getFieldsReplacing(":authority", host)...)); got.status != want ||
			want == "421" && got.contentType != problemType {
			t.Errorf("GET / at %s: result = %+v, want %s, as application/problem+json if 421", host, got, want)
		}
	}
}
