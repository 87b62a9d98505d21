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
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/project"
)

// example are the files of a project in examples, with its upstream replaced.
func example(t testing.TB, name, upstream string) map[string]string {
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

// post asks by POST with a JSON body.
func (r *run) post(path, key, body string) (int, string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestTheLibraryIsServed, an example with the policies of GraphQL, and an MCP server.
func TestTheLibraryIsServed(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		say(w, `{"data": {"books": []}}`)
	})
	r := start(t, example(t, "library", up))
	key := strings.Fields(strings.SplitAfter(r.told("the project's own bucket has the key"), "has the key ")[1])[0]
	if status, body := r.post("/graphql", "", `{"query": "{books {title}}"}`); status != http.StatusUnauthorized {
		t.Errorf("without a key: %d %s", status, body)
	}
	if status, body := r.post("/graphql", key, `{"query": "{books {title}}"}`); status != http.StatusOK || !strings.Contains(body, `"books"`) {
		t.Errorf("with a key: %d %s", status, body)
	}
	deep := `{"query": "{a {b {c {d {e {f}}}}}}"}`
	if status, body := r.post("/graphql", key, deep); !strings.Contains(body, "errors") && status < 400 {
		t.Errorf("too deep: %d %s", status, body)
	}
	r.line("answered by the policy limits")
	status, body := r.post("/mcp", key, `{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`)
	if status != http.StatusOK || !strings.Contains(body, `"tools"`) || !strings.Contains(body, "readBook") {
		t.Errorf("the tools are %d %s", status, body)
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
			r := start(t, example(t, e.Name(), hello(t)))
			r.told("serving ")
			if status, body := r.ask(http.MethodGet, "/__gatewright/ping", ""); status != http.StatusOK {
				t.Errorf("it answers %d %s", status, body)
			}
		})
	}
}

// TestServicesBehindTunnelsAreNotReached, and that is told to who asks.
func TestServicesBehindTunnelsAreNotReached(t *testing.T) {
	r := start(t, example(t, "stock", hello(t)))
	status, body := r.ask(http.MethodGet, "/shelves/7", "")
	if status < 500 || !strings.Contains(body, "detail") {
		t.Errorf("%d %s", status, body)
	}
}

// TestACertificateThatIsNotGivenIsAnError of the route that shows it.
func TestACertificateThatIsNotGivenIsAnError(t *testing.T) {
	files := map[string]string{routes: strings.Replace(routesFile(route{path: "/a", upstream: "https://127.0.0.1:1"}), `"baseUrl"`, `"mtlsCertificate": "bank", "baseUrl"`, 1)}
	r := start(t, files)
	r.told(`This route shows its upstream the certificate "bank"`)

	its := pkitest.CA(t, "CA", time.Now()).Client(t, "shop", time.Now())
	given := start(t, files, func(o *dev.Options) {
		o.Certificates = map[string]project.ClientCertificate{"bank": {Chain: its.PEM(), Key: its.KeyPEM(t)}}
	})
	given.told("serving 1 route")
	if status, body := given.ask(http.MethodGet, "/a", ""); status != http.StatusBadGateway { // nobody listens there
		t.Errorf("%d %s", status, body)
	}
}

// TestHostsOfOtherSitesAreNotServed: a page that has its own name lead here reads nothing.
func TestHostsOfOtherSitesAreNotServed(t *testing.T) {
	r := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: hello(t)})}, func(o *dev.Options) { o.Hosts = []string{"Dev.Example"} })
	for host, want := range map[string]int{
		"127.0.0.1": 200, "localhost": 200, "LOCALHOST:8787": 200, "shop.localhost": 200, "[::1]:80": 200, "192.0.2.1": 200, "dev.example:1": 200, "localhost.": 200,
		"evil.example": 404, "localhost.evil.example": 404, "127.0.0.1.evil.example": 404, "evil-localhost": 404, "other.dev.example": 404,
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/a", http.NoBody)
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
			t.Errorf("%s is answered %d, not %d", host, response.StatusCode, want)
		}
	}
}

// TestHostileClientsWriteNoControlCharacters to the terminal, and end nothing.
func TestHostileClientsWriteNoControlCharacters(t *testing.T) {
	r := start(t, map[string]string{routes: routesFile(route{path: "/a", upstream: hello(t)})})
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
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
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
	r.want("/a", "", http.StatusOK, "upstream /a")
	r.line("200 GET")
	for _, all := range []string{r.out.String(), r.err.String()} {
		if strings.ContainsAny(all, "\x1b\u202e\x07\x00") {
			t.Errorf("what is told is %q", all)
		}
	}
}

// TestTheEndTellsWebSockets that it goes away, of whichever version they are.
func TestTheEndTellsWebSockets(t *testing.T) {
	up := upstreamOf(t, func(w http.ResponseWriter, r *http.Request) {
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
	r := start(t, map[string]string{routes: routesFile(route{path: "/socket", upstream: up})})
	c, _, err := websocket.Dial(t.Context(), r.url+"/socket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	r.save(routes, routesFile(route{path: "/other", upstream: up}))
	r.told("has changed: serving")
	if err := c.Write(t.Context(), websocket.MessageText, []byte("still here")); err != nil {
		t.Fatal(err)
	}
	if _, data, err := c.Read(t.Context()); err != nil || string(data) != "still here" {
		t.Errorf("after a save it says %q, %v", data, err)
	}
	r.stop()
	_, _, err = c.Read(t.Context())
	if websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("it ended with %v", err)
	}
}
