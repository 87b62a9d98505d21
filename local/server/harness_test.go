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
	"github.com/gatewright/gatewright/internal/free"
	"github.com/gatewright/gatewright/internal/printed"
	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/shared/config"
)

// domain is the servers'. No DNS has it: clients come by a proxy that knows where it is.
const domain = "gatewright.test"

// patience bounds what takes a fraction of a second.
const patience = time.Minute

// repository is the checkout's folder.
var repository = filepath.Join("..", "..")

// binary is the server as users have it, built once with the client beside it.
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
	plain, secure string // where it listens
	path          string // of its binary, "" for the one of this checkout
	ended         chan struct{}
	text          printed.Text // of both outputs
}

func (s *server) printed() string {
	return s.text.String()
}

// unstarted is one that nobody has started, and the ports where it is going to listen.
func unstarted(t *testing.T, data string) *server {
	t.Helper()
	return &server{t: t, data: data, ended: make(chan struct{}), plain: free.Address(t).String(), secure: free.Address(t).String()}
}

// launch starts one with these settings, over a data directory.
func launch(t *testing.T, data string, env ...string) *server {
	t.Helper()
	return unstarted(t, data).start(env...)
}

// start starts it with these settings.
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
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
		if t.Failed() {
			t.Logf("the server printed:\n%s", s.printed())
		}
	})
	return s
}

// serving is launch, and waits until it serves.
func serving(t *testing.T, data string, env ...string) *server {
	t.Helper()
	return unstarted(t, data).serve(env...)
}

// serve is start, and waits until it serves.
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

// until waits until something holds.
func (s *server) until(what string, holds func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-s.ended:
			s.t.Fatalf("it has ended, and not that %s:\n%s", what, s.printed())
		default:
		}
		if time.Now().After(end) {
			s.t.Fatalf("it never comes to that %s", what)
		}
	}
}

// ends waits for its end, and gives what it printed.
func (s *server) ends() (code int, printed string) {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		s.t.Fatal("it does not end")
	}
	return s.cmd.ProcessState.ExitCode(), s.printed()
}

func (s *server) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	if code, _ := s.ends(); code != 0 {
		s.t.Errorf("at SIGTERM it ends with %d", code)
	}
}

// key is the account key of its first start.
func (s *server) key() string {
	s.t.Helper()
	content, err := os.ReadFile(filepath.Join(s.data, datadir.AccountKey))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.TrimSpace(string(content))
}

// client asks for names of the domain at the server, and trusts roots.
func (s *server) client(roots *x509.CertPool) *http.Client {
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.where(address))
		},
	}
	s.t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// where is what the DNS and the ports of a machine would lead to.
func (s *server) where(address string) string {
	switch _, port, _ := net.SplitHostPort(address); port {
	case "80":
		return s.plain
	case "443":
		return s.secure
	}
	return address
}

// ask makes a request and gives the answer with its body.
func ask(t *testing.T, c *http.Client, method, address, key string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	out, err := c.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = out.Body.Close() }()
	body, err := io.ReadAll(out.Body)
	return out, string(body), err
}

// written writes a file.
func written(t *testing.T, path string, content []byte) string {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs another command over the server's data, and gives what it prints.
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

// waiting is an upstream whose answers wait until they are let.
type waiting struct {
	*httptest.Server
	asked chan struct{} // gets one for each request
	let   func()        // may be called again
}

func newWaiting(t *testing.T) *waiting {
	open := make(chan struct{})
	w := &waiting{asked: make(chan struct{}, 1), let: sync.OnceFunc(func() { close(open) })}
	w.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		w.asked <- struct{}{}
		<-open
	}))
	t.Cleanup(w.Close)
	t.Cleanup(w.let)
	return w
}

// proxied is a proxy that clients come by, which knows where the domain is.
func (s *server) proxied() string {
	p := httptest.NewServer(connectproxy.Handler(s.where))
	s.t.Cleanup(p.Close)
	return p.URL
}
