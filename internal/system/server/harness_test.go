package server_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/internal/connectproxy"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/testing/freeport"
	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

// domain is the domain of the servers. It is not in the DNS: clients use a proxy that connects to the servers.
const domain = "gatewright.test"

// timeout bounds waits that take a fraction of a second.
const timeout = time.Minute

// repository is the checkout's folder.
var repository = filepath.Join("..", "..", "..")

// binary returns the path of the server's binary as users have it, next to the client's. Both are built once.
var binary = sync.OnceValues(func() (string, error) {
	cmd := exec.Command("make", "cli")
	cmd.Dir, cmd.Env = repository, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the commands: %w: %s", err, out)
	}
	return filepath.Abs(filepath.Join(repository, "dist", "gatewright-server"))
})

// server is a process of `gatewright-server serve`.
type server struct {
	t             *testing.T
	cmd           *exec.Cmd
	data          string
	plain, secure string // the addresses where it listens
	path          string // the path of its binary, "" for the binary of this checkout
	done          chan struct{}
	text          syncbuffer.Text // what it wrote to stdout and stderr
}

// output returns what the server has printed so far.
func (s *server) output() string {
	return s.text.String()
}

// newStoppedServer returns a server that is not running yet, with the ports where it will listen.
func newStoppedServer(t *testing.T, data string) *server {
	t.Helper()
	return &server{
		t: t, data: data, done: make(chan struct{}), plain: freeport.Address(t).String(),
		secure: freeport.Address(t).String(),
	}
}

// startServer starts a server with these settings and a data directory.
func startServer(t *testing.T, data string, env ...string) *server {
	t.Helper()
	return newStoppedServer(t, data).start(env...)
}

// start starts the server with these settings.
func (s *server) start(env ...string) *server {
	t := s.t
	t.Helper()
	if s.path == "" {
		path, err := binary()
		if err != nil {
			t.Fatal(err)
		}
		s.path = path
	}
	s.cmd = exec.Command(s.path, "serve")
	s.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(),
		config.VarDomain + "=" + domain, config.VarDataDir + "=" + s.data, config.VarAPIAddr + "=127.0.0.1:0",
		config.VarGatewayAddr + "=" + s.plain, config.VarTLSAddr + "=" + s.secure, config.VarPrivateUpstreams + "=true",
	}, env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.text, &s.text
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.done)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.done
		if t.Failed() {
			t.Logf("the server printed:\n%s", s.output())
		}
	})
	return s
}

// serve starts a server, and waits until it is ready.
func serve(t *testing.T, data string, env ...string) *server {
	t.Helper()
	return newStoppedServer(t, data).serve(env...)
}

// serve starts the server with these settings, and waits until it is ready.
func (s *server) serve(env ...string) *server {
	s.t.Helper()
	ready := filepath.Join(s.t.TempDir(), "ready")
	s.start(append(env, config.VarReadyFile+"="+ready)...)
	s.until("it is ready", func() bool {
		_, err := os.Stat(ready)
		return err == nil
	})
	return s
}

// until waits until a condition holds. The test fails if the server exits first.
func (s *server) until(description string, condition func() bool) {
	s.t.Helper()
	for end := time.Now().Add(timeout); !condition(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-s.done:
			s.t.Fatalf("the server has exited, want: %s\n%s", description, s.output())
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("after %s the condition is false, want: %s", timeout, description)
		}
	}
}

// waitExit waits until the server has ended, and returns its exit code and its output.
func (s *server) waitExit() (code int, printed string) {
	s.t.Helper()
	select {
	case <-s.done:
	case <-time.After(timeout):
		s.t.Fatalf("the server runs after %s, want it to exit", timeout)
	}
	return s.cmd.ProcessState.ExitCode(), s.output()
}

// stop sends SIGTERM to the server, and requires the exit code 0.
func (s *server) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if code, _ := s.waitExit(); code != 0 {
		s.t.Errorf("exit code after SIGTERM = %d, want 0", code)
	}
}

// key returns the account key that the first start created.
func (s *server) key() string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.data, datadir.AccountKey))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// client returns a client that resolves the names of the domain to the server, and that trusts roots.
func (s *server) client(roots *x509.CertPool) *http.Client {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.dialAddress(address))
		},
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// dialAddress returns the address to dial instead of address: the server's own addresses for the ports 80 and 443, and
// otherwise address itself.
func (s *server) dialAddress(address string) string {
	switch _, port, _ := net.SplitHostPort(address); port {
	case "80":
		return s.plain
	case "443":
		return s.secure
	}
	return address
}

// ask sends a request, and returns the response and its body.
func ask(t *testing.T, c *http.Client, method, address, key string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp, string(body), err
}

// writeFile writes a file and returns its path.
func writeFile(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs another command of the server's binary with the server's data directory, and returns its standard
// output.
func (s *server) command(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.cmd.Path, args...)
	cmd.Env = s.cmd.Env
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("%v: %v", args, err)
	}
	return string(out)
}

// slowUpstream is an upstream whose responses wait until release is called.
type slowUpstream struct {
	*httptest.Server
	requested chan struct{} // receives a value for each request
	release   func()        // can be called more than once
}

// newSlowUpstream starts a slowUpstream.
func newSlowUpstream(t *testing.T) *slowUpstream {
	released := make(chan struct{})
	w := &slowUpstream{requested: make(chan struct{}, 1), release: sync.OnceFunc(func() { close(released) })}
	w.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		w.requested <- struct{}{}
		<-released
	}))
	t.Cleanup(w.Close)
	t.Cleanup(w.release)
	return w
}

// proxyURL starts a proxy that resolves the domain, and returns its URL.
func (s *server) proxyURL() string {
	p := httptest.NewServer(connectproxy.Handler(s.dialAddress))
	s.t.Cleanup(p.Close)
	return p.URL
}
