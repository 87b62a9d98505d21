package gateway_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
)

// TestOversizedHeaderIsRefused checks that the handler refuses a
// header that exceeds its limits. In a Lambda there is no other limit.
func TestOversizedHeaderIsRefused(t *testing.T) {
	backend := serve(t, headers)
	// many returns a header with n pairs of fields. The name and the value of a pair's first
	// field have this number of bytes together, and its second field has an empty value.
	many := func(n, bytes int) http.Header {
		h := http.Header{}
		for range n {
			h.Add("X-Many", strings.Repeat("x", bytes-len("X-Many")))
			h.Add("X-Many", "")
		}
		return h
	}
	for _, test := range []struct {
		name     string
		header   http.Header
		settings []setting
		status   int
	}{
		{"200 fields", many(100, 10), nil, http.StatusOK},
		{"202 fields", many(101, 10), nil, http.StatusRequestHeaderFieldsTooLarge},
		{"64 KiB", http.Header{"A": {strings.Repeat("x", 64<<10-1)}}, nil, http.StatusOK},
		{"64 KiB and a byte", http.Header{"A": {strings.Repeat("x", 64<<10)}}, nil, http.StatusRequestHeaderFieldsTooLarge},
		{"64 KiB in two values", http.Header{"A": {"", strings.Repeat("x", 64<<10-2)}}, nil, http.StatusOK},
		{
			"64 KiB and a byte in two values",
			http.Header{"A": {"", strings.Repeat("x", 64<<10-1)}},
			nil,
			http.StatusRequestHeaderFieldsTooLarge,
		},
		{"a long name", http.Header{strings.Repeat("A", 64<<10): {"x"}}, nil, http.StatusRequestHeaderFieldsTooLarge},
		{"more fields than the setting allows", many(3, 10), []setting{func(c *gateway.Config, _ *upstream.Options) {
			c.MaxHeaderFields = 5
		}}, http.StatusRequestHeaderFieldsTooLarge},
		{"more bytes than the setting allows", many(3, 100), []setting{func(c *gateway.Config, _ *upstream.Options) {
			c.MaxHeaderBytes = 300
		}}, http.StatusRequestHeaderFieldsTooLarge},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t, artifact(route("GET /x", forward(backend.URL))), test.settings...)
			for path, status := range map[string]int{"/x": test.status, "/nothing": max(test.status, http.StatusNotFound)} {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://shop.test"+path, http.NoBody)
				r.Header = test.header
				w := httptest.NewRecorder()
				h.gateway.ServeHTTP(w, r)
				if w.Code != status {
					t.Errorf("GET %s: status = %d, want %d", path, w.Code, status)
				}
				if status == http.StatusRequestHeaderFieldsTooLarge {
					if p := problemOf(t, w.Result()); p.Title != "Request Header Fields Too Large" ||
						!strings.Contains(p.Detail, "Send at most") {
						t.Errorf("GET %s with a large header: problem = %q %q, want a title for 431 and the limit",
							path, p.Title, p.Detail)
					}
				}
			}
		})
	}
}

// TestAmbiguousFieldNamesAreDropped checks that fields are not forwarded whose names upstreams can confuse with fields
// of the gateway. For example, CGI reads "_" as "-". With the option Underscores, other names with "_" are forwarded.
func TestAmbiguousFieldNamesAreDropped(t *testing.T) {
	const lines = "X_Forwarded_For: 6.6.6.6\r\nX-Forwarded_Host: evil.test\r\nx_custom: 1\r\nContent_Length: " +
		"7\r\nTransfer_Encoding: chunked\r\nProxy: http://evil.test\r\n" +
		"X.Real.Ip: 6.6.6.6\r\nX-Forwarded-For.: 6.6.6.6\r\nX-Forwarded-For-: 6.6.6.6\r\n-X-Forwarded--For: " +
		"6.6.6.6\r\n'X-Forwarded-For': 6.6.6.6\r\nVia!: 6.6.6.6\r\nX-Kept: 1\r\nx.kept: 1\r\n"
	for underscores, want := range map[bool][]string{
		false: {"X-Kept: 1", "X.kept: 1"},
		true:  {"X-Kept: 1", "X.kept: 1", "X_custom: 1"},
	} {
		backend, received := recorder(t)
		h := newFixture(t, artifact(route("POST /x", forward(backend))), func(c *gateway.Config, _ *upstream.Options) {
			c.HeaderFilter.Underscores = underscores
		})
		r, _ := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\n"+
			lines+"Transfer-Encoding: chunked\r\nTrailer: X_sum, X-Sum, X_Forwarded_For\r\n\r\n"+
			"1\r\nx\r\n0\r\nX_sum: 1\r\nX-Sum: 1\r\nX_Forwarded_For: 6.6.6.6\r\n\r\n")
		if _, err := http.ReadResponse(r, nil); err != nil {
			t.Fatalf("Underscores = %t: ReadResponse() error = %v, want a response", underscores, err)
		}
		got := <-received
		for _, name := range []string{
			"X_forwarded", "X-Forwarded_host", "Content_length", "Transfer_encoding", "Proxy:",
			"X.real", "6.6.6.6",
		} {
			if strings.Contains(strings.ToLower(got), strings.ToLower(name)) {
				t.Errorf("Underscores = %t: the upstream got the field %s, want it dropped:\n%s", underscores, name, got)
			}
		}
		for _, line := range want {
			if !strings.Contains(got, line) {
				t.Errorf("Underscores = %t: the upstream did not get %q, want it forwarded:\n%s", underscores, line, got)
			}
		}
		if strings.Contains(strings.ToLower(got), "x_custom") != underscores {
			t.Errorf("Underscores = %t: the upstream got X_Custom: %t, want %t:\n%s",
				underscores, !underscores, underscores, got)
		}
	}
}

// TestRequestTrailersAreFiltered checks that a trailer keeps only announced fields that are allowed in a trailer and
// that a client can send upstream, and that keys are removed from it.
func TestRequestTrailersAreFiltered(t *testing.T) {
	key, custom := newKey(credential.ConsumerKey), "a-custom-key-of-theirs"
	trailers := make(chan http.Header, 1)
	backend := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		trailers <- r.Trailer
	})
	a := artifact(route("POST /x", forward(backend.URL), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{"authHeader": "X-Api-Key", "authScheme": ""})
	h := newFixture(t, a)
	h.keys.known = map[string]policy.KeyOwner{" " + custom: {Sub: "acme"}}
	fields := []string{
		"X-Sum: 7", "X-Listed: 1", "Authorization: Bearer theirs", "X-Api-Key: theirs", "Cookie: a=1",
		"X-Forwarded-For: 6.6.6.6", "Via: 1.1 gatewright", "X_under: 1",
		"X-Key: " + key, "X-Again: " + custom, "Host: evil.test", "If-Match: *", "Connection: close", "X-Real-Ip: 6.6.6.6",
		"Content-Type: text/html", "Traceparent: x",
	}
	names := make([]string, len(fields))
	for i, field := range fields {
		names[i], _, _ = strings.Cut(field, ":")
	}
	r, _ := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nX-Api-Key: "+
		custom+"\r\nConnection: close, x-listed\r\nTransfer-Encoding: chunked\r\nTrailer: "+strings.Join(names, ", ")+
		"\r\n\r\n1\r\nx\r\n0\r\n"+strings.Join(fields, "\r\n")+"\r\nX-Unannounced: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("POST /x with trailers: error = %v, want a response", err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("POST /x with trailers: status = %d, want 200", response.StatusCode)
	}
	got := <-trailers
	for name, values := range got {
		if name != "X-Sum" && len(values) > 0 {
			t.Errorf("POST /x: trailer %s at the upstream = %q, want none", name, values)
		}
	}
	if got.Get("X-Sum") != "7" {
		t.Errorf("POST /x: trailers at the upstream = %v, want X-Sum 7", got)
	}
}

func TestHTTP10ClientsGetNoEarlyHints(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		writef(w, "done")
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL))))
	_, conn := sendRaw(t, h.URL, "GET /x HTTP/1.0\r\nHost: shop.test\r\n\r\n")
	all, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(all), "HTTP/1.0 200 ") || strings.Contains(string(all), "103") {
		t.Errorf("GET /x with HTTP/1.0: response (%v), want one response of status 200:\n%s", err, all)
	}
}

// TestNoContentTypeIsGuessed checks that the gateway adds no Content-Type
// to a response without one: browsers could show the data as a web page.
func TestNoContentTypeIsGuessed(t *testing.T) {
	const page = "<html><script>alert(1)</script></html>"
	backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		switch request.URL.Path {
		case "/length":
			writef(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
		case "/chunked":
			writef(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(page), page)
		case "/empty":
			writef(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		case "/none":
			writef(conn, "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n")
		case "/typed":
			writef(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/x-mine\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
		case "/typed-empty":
			writef(conn, "HTTP/1.1 200 OK\r\nContent-Type:\r\nContent-Length: %d\r\n\r\n%s", len(page), page)
		}
	})
	h := newFixture(t, artifact(route("GET /{what}", forward(backend))))
	for _, method := range []string{"GET", "HEAD"} {
		for path, want := range map[string][]string{
			"/length": nil, "/chunked": nil, "/empty": nil, "/none": nil,
			"/typed": {"text/x-mine"}, "/typed-empty": {""},
		} {
			if method == "HEAD" && path == "/chunked" {
				continue // the upstream would send a body for HEAD
			}
			response := h.do(t, method, path)
			_ = body(t, response)
			if got := response.Header["Content-Type"]; !slices.Equal(got, want) {
				t.Errorf("%s %s: Content-Type = %q, want %q", method, path, got, want)
			}
			if path == "/none" && response.Header["Content-Length"] != nil {
				t.Errorf("%s %s: Content-Length = %q, want none", method, path, response.Header["Content-Length"])
			}
		}
	}
}

// TestResponseSplittingIsPrevented checks that invalid fields of an upstream's response are not sent to clients.
func TestResponseSplittingIsPrevented(t *testing.T) {
	for name, line := range map[string]string{
		"NUL": "X-A: 1\x00X-B: 2", "a carriage return": "X-A: 1\rX-B: 2",
		"a control character": "X-A: \x01", "no name": ": 1", "a space": "X-A : 1",
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
					if request, err := http.ReadRequest(r); err == nil {
						_, _ = io.Copy(io.Discard, request.Body)
						writef(conn, "HTTP/1.1 200 OK\r\n%s\r\nSet-Cookie: a=1\r\nContent-Length: 2\r\n\r\nok", line)
					}
				})
				h := newFixture(t, artifact(route(method+" /x", forward(backend))))
				_, conn := sendRaw(t, h.URL, method+" /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1\r\nConnection: "+
					"close\r\n\r\nx")
				all, err := io.ReadAll(conn)
				head, _, _ := strings.Cut(string(all), "\r\n\r\n")
				for field := range strings.SplitSeq(head, "\r\n") {
					if strings.ContainsAny(field, "\r\n\x00\x01") || strings.HasPrefix(field, "X-B") || strings.HasPrefix(field, ":") {
						t.Errorf("%s in a response field: the client got %q (%v), want no injected field", name, all, err)
					}
				}
				served := name == "a space" && strings.HasPrefix(head, "HTTP/1.1 200")
				if !served && !strings.HasPrefix(head, "HTTP/1.1 502") {
					t.Errorf("%s in a response field: head = %q, want 502 (or 200 for a space)", name, head)
				}
			})
		}
	}
}

func TestPoliciesCannotSetGatewayFields(t *testing.T) {
	for _, name := range []string{
		"Via", "via", "Connection", "X-Forwarded-For", "X_Forwarded_For", "X-Request-Id",
		"Traceparent", "Host", "Content_Length", "Proxy", "Upgrade",
	} {
		for _, c := range []project.Policy{
			{Type: "api-key-inbound", Handler: component("x", map[string]any{"authHeader": name})},
			{
				Type:    "query-param-to-header-inbound",
				Handler: component("x", map[string]any{"queryParam": "a", "headerName": name, "headerValue": "{value}"}),
			},
		} {
			if problems := policy.Check(c); len(problems) != 1 ||
				!strings.Contains(problems[0].Message, "Choose another header") {
				t.Errorf("Check(%s with the header %s) = %v, want one problem with \"Choose another header\"",
					c.Type, name, problems)
			}
		}
	}
}

// TestPoliciesSeeFieldsWithUnderscores checks that a key and a required parameter can be in header fields whose names
// have "_", although these fields are not sent upstream.
func TestPoliciesSeeFieldsWithUnderscores(t *testing.T) {
	backend, received := recorder(t)
	a := artifact(route("GET /x", forward(backend), "key", "validate"))
	declare(a, "key", "api-key-inbound", map[string]any{"authHeader": "api_key", "authScheme": ""})
	declare(a, "validate", "request-validation-inbound", map[string]any{})
	a.Routes[0].Request = &project.RequestDescription{Parameters: []project.Parameter{
		{In: project.HeaderParameter, Name: "x_count", Required: true, Style: project.StyleSimple},
		{
			In: project.HeaderParameter, Name: "X-Size", Style: project.StyleSimple,
			Schema: json.RawMessage(`{"type": "integer"}`),
		},
	}}
	fx := newFixture(t, a)
	fx.keys.known = map[string]policy.KeyOwner{" custom-key": {Sub: "me"}}
	for _, test := range []struct {
		name   string
		fields []func(*http.Request)
		status int
	}{
		{"no key", []func(*http.Request){header("X_count", "1")}, http.StatusUnauthorized},
		{"no parameter", []func(*http.Request){header("Api_key", "custom-key")}, http.StatusBadRequest},
		{"both", []func(*http.Request){header("Api_key", "custom-key"), header("X_count", "1")}, http.StatusOK},
		{
			"both and an invalid field",
			[]func(*http.Request){header("Api_key", "custom-key"), header("X_count", "1"), header("X-Size", "x")},
			http.StatusBadRequest,
		},
	} {
		if got := fx.do(t, "GET", "/x", test.fields...).StatusCode; got != test.status {
			t.Errorf("GET /x with %s: status = %d, want %d", test.name, got, test.status)
		}
	}
	if got := <-received; strings.Contains(strings.ToLower(got), "api_key") || strings.Contains(got, "custom-key") ||
		strings.Contains(strings.ToLower(got), "x_count") {
		t.Errorf("the upstream got the fields with underscores, want them dropped:\n%s", got)
	}
}
