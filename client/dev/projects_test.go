package dev_test

import (
	"bufio"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/gatewright/gatewright/client/dev"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/format/project"
)

// exampleFiles returns the files of a project in the folder examples. Its routes forward to upstream.
func exampleFiles(t testing.TB, name, upstream string) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..", "examples", name)
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[filepath.ToSlash(rel)] = strings.ReplaceAll(string(data), "http://127.0.0.1:9002", upstream)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// post sends a POST request with a JSON body. It returns the status and the body of the response.
func (s *testServer) post(path, key, body string) (int, string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestLibraryExampleIsServed serves an example that has GraphQL policies and an MCP server.
func TestLibraryExampleIsServed(t *testing.T) {
	upstreamURL := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		writef(w, `{"data": {"books": []}}`)
	})
	s := start(t, exampleFiles(t, "library", upstreamURL))
	key := strings.Fields(strings.SplitAfter(s.waitForMessage("the project's own bucket has the key"),
		"has the key ")[1])[0]
	if status, body := s.post("/graphql", "", `{"query": "{books {title}}"}`); status != http.StatusUnauthorized {
		t.Errorf("POST /graphql without a key = %d %s, want 401", status, body)
	}
	if status, body := s.post("/graphql", key, `{"query": "{books {title}}"}`); status != http.StatusOK ||
		!strings.Contains(body, `"books"`) {
		t.Errorf("POST /graphql with a key = %d %s, want 200 with books", status, body)
	}
	tooDeep := `{"query": "{a {b {c {d {e {f}}}}}}"}`
	if status, body := s.post("/graphql", key, tooDeep); !strings.Contains(body, "errors") && status < 400 {
		t.Errorf("POST /graphql with a query that is too deep = %d %s, want errors", status, body)
	}
	s.waitForLogLine("answered by the policy limits")
	status, body := s.post("/mcp", key, `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`)
	if status != http.StatusOK || !strings.Contains(body, `"tools"`) || !strings.Contains(body, "readBook") {
		t.Errorf("POST /mcp tools/list = %d %s, want 200 with the tool readBook", status, body)
	}
}

func TestEveryExampleIsServed(t *testing.T) {
	entries, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		t.Run(e.Name(), func(t *testing.T) {
			s := start(t, exampleFiles(t, e.Name(), newEchoUpstream(t)))
			s.waitForMessage("serving ")
			if status, body := s.do(http.MethodGet, "/__gatewright/ping", ""); status != http.StatusOK {
				t.Errorf("GET /__gatewright/ping = %d %s, want 200", status, body)
			}
		})
	}
}

// TestTunneledServiceIsUnavailable checks that a request to a service behind a tunnel gets an error with a detail: this
// server has no tunnels.
func TestTunneledServiceIsUnavailable(t *testing.T) {
	s := start(t, exampleFiles(t, "stock", newEchoUpstream(t)))
	status, body := s.do(http.MethodGet, "/shelves/7", "")
	if status < 500 || !strings.Contains(body, "detail") {
		t.Errorf("GET of a tunneled service = %d %s, want 500 or more with a detail", status, body)
	}
}

// TestMissingCertificateIsReported checks that the message names the missing certificate. With the certificate, the
// project must be served.
func TestMissingCertificateIsReported(t *testing.T) {
	files := map[string]string{routes: strings.Replace(routesFile(route{path: "/a", upstream: "https://127.0.0.1:1"}),
		`"baseUrl"`, `"mtlsCertificate": "bank", "baseUrl"`, 1)}
	s := start(t, files)
	s.waitForMessage(`This route shows its upstream the certificate "bank"`)

	cert := pkitest.CA(t, "CA", time.Now()).Client(t, "shop", time.Now())
	complete := start(t, files, func(o *dev.Options) {
		o.Certificates = map[string]project.ClientCertificate{"bank": {Chain: cert.PEM(), Key: cert.KeyPEM(t)}}
	})
	complete.waitForMessage("serving 1 route")
	// nothing listens at the upstream's address
	if status, body := complete.do(http.MethodGet, "/a", ""); status != http.StatusBadGateway {
		t.Errorf("GET /a with all certificates = %d %s, want 502", status, body)
	}
}

// TestOtherHostsAreRefused checks that only allowed hosts are served. Otherwise another site could let its name resolve
// to this machine, and its page could read responses.
func TestOtherHostsAreRefused(t *testing.T) {
	s := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: newEchoUpstream(t)})},
		func(o *dev.Options) { o.Hosts = []string{"Dev.Example"} })
	for host, want := range map[string]int{
		"127.0.0.1": 200, "localhost": 200, "LOCALHOST:8787": 200, "shop.localhost": 200, "[::1]:80": 200, "192.0.2.1": 200,
		"dev.example:1": 200, "localhost.": 200,
		"evil.example": 404, "localhost.evil.example": 404, "127.0.0.1.evil.example": 404, "evil-localhost": 404,
		"other.dev.example": 404,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/a", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("GET /a with the host %s = %d, want %d", host, response.StatusCode, want)
		}
	}
}

// TestControlCharactersAreEscaped checks that no request writes control characters to the terminal, and that no request
// stops the server.
func TestControlCharactersAreEscaped(t *testing.T) {
	s := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: newEchoUpstream(t)})})
	for _, raw := range []string{
		"GET /\x1b[31m HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /a%1b%5b31m HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /%e2%80%ae HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET /\u202e HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"G\x1bT / HTTP/1.1\r\nHost: localhost\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\x1b[31m\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n",
		"\x16\x03\x01\x02\x00",
		"",
	} {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, raw)
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		_, _ = bufio.NewReader(c).ReadString('\n')
		_ = c.Close()
	}
	s.waitForResponse("/a", "", http.StatusOK, "upstream /a")
	s.waitForLogLine("200 GET")
	for _, output := range []string{s.out.String(), s.err.String()} {
		if strings.ContainsAny(output, "\x1b\u202e\x07\x00") {
			t.Errorf("output = %q, want no control characters", output)
		}
	}
}

// TestShutdownClosesWebSockets checks that the WebSocket of an old version stays open after a save, and that a shutdown
// closes it with the status "going away".
func TestShutdownClosesWebSockets(t *testing.T) {
	upstreamURL := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil || c.Write(r.Context(), kind, data) != nil {
				return
			}
		}
	})
	s := start(t, map[string]string{routes: routesFile(route{path: "/socket", upstream: upstreamURL})})
	c, _, err := websocket.Dial(t.Context(), s.url+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	s.save(routes, routesFile(route{path: "/other", upstream: upstreamURL}))
	s.waitForMessage("has changed: serving")
	if err := c.Write(t.Context(), websocket.MessageText, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := c.Read(t.Context()); err != nil || string(data) != "still here" {
		t.Errorf("Read() of a WebSocket after a save = %q, %v, want \"still here\"", data, err)
	}
	s.stop()
	_, _, err = c.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("Read() of a WebSocket after a shutdown: error = %v, want status %d", err, websocket.StatusGoingAway)
	}
}
