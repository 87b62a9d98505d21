package listen_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/listen"
	"github.com/gatewright/gatewright/shared/api"
)

// serve starts a server whose handler answers 400 in plain text, which has to
// pass as it is.
func serve(t *testing.T) string {
	t.Helper()
	l, err := listen.On(t.Context(), "127.0.0.1:0", "the test", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{MaxHeaderBytes: 4096, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "of the handler", http.StatusBadRequest)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return l.Addr().String()
}

// send writes raw bytes and reads one response.
func send(t *testing.T, addr, raw string) (*http.Response, string) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, raw); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestRequestThatIsNoHTTPGetsAProblem(t *testing.T) {
	addr := serve(t)
	for name, tc := range map[string]struct {
		raw    string
		status int
	}{
		"bare percent":         {"GET /% HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"half an escape":       {"GET /a%2 HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"no host":              {"GET / HTTP/1.1\r\n\r\n", 400},
		"two lengths":          {"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		"control in a header":  {"GET / HTTP/1.1\r\nHost: a\r\nA: \x01\r\n\r\n", 400},
		"no HTTP":              {"hello\r\n\r\n", 400},
		"large header":         {"GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("x", 20000) + "\r\n\r\n", 431},
		"unknown encoding":     {"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
		"unknown HTTP version": {"GET / HTTP/3.7\r\nHost: a\r\n\r\n", 505},
	} {
		t.Run(name, func(t *testing.T) {
			response, body := send(t, addr, tc.raw)
			if response.StatusCode != tc.status || response.Header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("%s, %s: %s", response.Status, response.Header.Get("Content-Type"), body)
			}
			var p api.Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil {
				t.Fatal(err)
			}
			if p.Status != tc.status || p.Title == "" || p.Detail == "" || !strings.HasSuffix(p.Type, response.Status[:3]) {
				t.Errorf("problem %+v", p)
			}
		})
	}
}

func TestAnswerOfAHandlerPassesUnchanged(t *testing.T) {
	response, body := send(t, serve(t), "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if response.StatusCode != http.StatusBadRequest || body != "of the handler\n" {
		t.Errorf("%s: %q", response.Status, body)
	}
}

func TestPortInUseIsOneClearLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, err = listen.On(t.Context(), l.Addr().String(), "the management API", "GATEWRIGHT_API_ADDR")
	want := l.Addr().String() + " for the management API is in use by another program: stop that program, or name another address in GATEWRIGHT_API_ADDR"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	_, err = listen.On(t.Context(), "no-port", "the management API", "GATEWRIGHT_API_ADDR")
	if err == nil || !strings.Contains(err.Error(), "GATEWRIGHT_API_ADDR") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
