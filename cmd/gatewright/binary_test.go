package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

// token is a secret that must never appear in the output.
const token = "eyJhIjoiYSIsInQiOiJ0IiwicyI6InNlY3JldCJ9"

const (
	tunnelID = "tnl_1"
	timeout  = 40 * time.Second
)

var shopCaller = tunnel.Caller{Project: "shop", Environment: "production"}

// roleCommand makes the test binary run the command itself. So the command also contains the planted defects of a test
// build. roleParent makes it run the server as a child process.
const (
	roleCommand = "command"
	roleParent  = "parent"
)

func TestMain(m *testing.M) {
	switch role := os.Getenv(varRole); role {
	case "":
	case roleCommand:
		os.Exit(run(os.Args[1:]))
	case roleParent:
		err := runChild(os.Args[1], os.Args[2:])
		if serverErr, ok := errors.AsType[*serverEndedError](err); ok {
			os.Exit(serverErr.code)
		}
		fmt.Println(err)
		os.Exit(0)
	default:
		os.Exit(playRole(role))
	}
	os.Exit(m.Run())
}

// process is a run of the command.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	done   chan struct{}
	output syncbuffer.Text // stdout and stderr together
}

func (p *process) outputText() string {
	return p.output.String()
}

// start runs the command with no environment variables other than env and varRole. At the end of the test it checks
// that the output does not contain the token.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return startAs(t, roleCommand, exec.Command(os.Args[0], args...), env)
}

// startAs starts cmd, a copy of the test binary, in a role.
func startAs(t *testing.T, role string, cmd *exec.Cmd, env []string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	p.cmd.Env = append(slices.Clone(env), varRole+"="+role)
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if strings.Contains(p.outputText(), token) {
			t.Errorf("the output contains the token, want it left out:\n%s", p.outputText())
		}
	})
	return p
}

// waitFor waits until the output contains a text.
func (p *process) waitFor(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(timeout); !strings.Contains(p.outputText(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("output =\n%s\nwant %q within %s", p.outputText(), text, timeout)
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// expectExit waits until the process ends. It checks the exit code, and checks that the output contains each text.
func (p *process) expectExit(code int, texts ...string) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(timeout):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(timeout / 4): // a process that is being replaced can miss the signal
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		p.t.Fatalf("the process does not end, want exit code %d:\n%s", code, p.outputText())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code = %d, want %d:\n%s", got, code, p.outputText())
	}
	for _, text := range texts {
		if !strings.Contains(p.outputText(), text) {
			p.t.Errorf("output =\n%s\nwant %q", p.outputText(), text)
		}
	}
}

// fixture is a relay and a service named stock.
type fixture struct {
	t      *testing.T
	relay  *tunnel.Relay
	server *httptest.Server // tests start it

	mu    sync.Mutex
	token string // the current token of the tunnel
}

func newFixture(t *testing.T, service http.HandlerFunc) *fixture {
	t.Helper()
	fx := &fixture{t: t, token: token}
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	fx.relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: func(_ context.Context, text string) (string, error) {
			fx.mu.Lock()
			defer fx.mu.Unlock()
			if text == fx.token {
				return tunnelID, nil
			}
			return "", nil
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			return []tunnel.Service{{
				Name: "stock", Endpoint: upstream.URL,
				Access: []tunnel.Access{{Project: shopCaller.Project, Environments: []string{shopCaller.Environment}}},
			}}, nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
	fx.server = httptest.NewUnstartedServer(fx.relay)
	fx.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	t.Cleanup(fx.server.Close)
	return fx
}

// rotate replaces the tunnel's token.
func (fx *fixture) rotate(newToken string) {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	fx.token = newToken
}

// closeLinks closes the agent's connections from the relay's side.
func (fx *fixture) closeLinks() {
	for _, l := range fx.relay.ForTunnel(tunnelID) {
		l.Close()
	}
}

// request sends a request to the service and returns the response body. It retries while the relay has no agent yet:
// this takes a moment after the agent reports a connection.
func (fx *fixture) request(method string) (string, error) {
	r, err := http.NewRequestWithContext(fx.t.Context(), method, "http://stock/shelf", strings.NewReader("x"))
	if err != nil {
		return "", err
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		response, err := fx.relay.RoundTrip(r, tunnelID, "stock", shopCaller)
		if errors.Is(err, tunnel.ErrNoAgent) && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		var text bytes.Buffer
		_, err = text.ReadFrom(response.Body)
		return text.String(), err
	}
}

// writeTokenFile writes a token to a file that only its owner can read, and returns the path of the file.
func writeTokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
