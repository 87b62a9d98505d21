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

	"github.com/gatewright/gatewright/internal/printed"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// token is what must never be seen.
const token = "eyJhIjoiYSIsInQiOiJ0IiwicyI6InNlY3JldCJ9"

const (
	tunnelID = "tnl_1"
	timeout  = 40 * time.Second
)

var shop = tunnel.Caller{Project: "shop", Environment: "production"}

// roleCommand makes the tests' binary the command itself, so that a planted defect is in it, and roleParent what runs the
// server as a child.
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
		if ended, ok := errors.AsType[*serverEndedError](err); ok {
			os.Exit(ended.code)
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
	t    *testing.T
	cmd  *exec.Cmd
	done chan struct{}
	text printed.Text // of both outputs
}

func (p *process) printed() string {
	return p.text.String()
}

// start runs the command with an environment of these variables alone. At the end nothing that it
// printed may hold the token.
func start(t *testing.T, env []string, args ...string) *process {
	t.Helper()
	return startAs(t, roleCommand, exec.Command(os.Args[0], args...), env)
}

// startAs is start of a copy of the tests' binary, in a role.
func startAs(t *testing.T, role string, cmd *exec.Cmd, env []string) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	p.cmd.Env = append(slices.Clone(env), varRole+"="+role)
	p.cmd.Stdout, p.cmd.Stderr = &p.text, &p.text
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
		if strings.Contains(p.printed(), token) {
			t.Errorf("it printed the token:\n%s", p.printed())
		}
	})
	return p
}

// until waits until it has printed a text.
func (p *process) until(text string) {
	p.t.Helper()
	for deadline := time.Now().Add(timeout); !strings.Contains(p.printed(), text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("it did not print %q:\n%s", text, p.printed())
		}
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// ends waits for its end, and expects the code and that it has printed each text.
func (p *process) ends(code int, texts ...string) {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(timeout):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		select {
		case <-p.done:
		case <-time.After(timeout / 4): // one that becomes another program just then loses the signal
			_ = p.cmd.Process.Kill()
			<-p.done
		}
		p.t.Fatalf("it does not end:\n%s", p.printed())
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("it ends with %d, want %d:\n%s", got, code, p.printed())
	}
	for _, text := range texts {
		if !strings.Contains(p.printed(), text) {
			p.t.Errorf("it does not print %q:\n%s", text, p.printed())
		}
	}
}

// world is a relay and a service called stock.
type world struct {
	t     *testing.T
	relay *tunnel.Relay
	at    *httptest.Server // not started

	mu    sync.Mutex
	token string
}

func newWorld(t *testing.T, service http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, token: token}
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	w.relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: func(_ context.Context, text string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if text == w.token {
				return tunnelID, nil
			}
			return "", nil
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			return []tunnel.Service{{Name: "stock", Endpoint: upstream.URL, Access: []tunnel.Access{{Project: shop.Project, Environments: []string{shop.Environment}}}}}, nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
	w.at = httptest.NewUnstartedServer(w.relay)
	w.at.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	t.Cleanup(w.at.Close)
	return w
}

// rotate makes another token the tunnel's.
func (w *world) rotate(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.token = to
}

// cut ends connections from outside.
func (w *world) cut() {
	for _, l := range w.relay.Of(tunnelID) {
		l.Close()
	}
}

// ask sends a request to the service, which may take a moment after a connection is told.
func (w *world) ask(method string) (string, error) {
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://stock/shelf", strings.NewReader("x"))
	if err != nil {
		return "", err
	}
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		response, err := w.relay.RoundTrip(r, tunnelID, "stock", shop)
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

// tokenFile writes a token into a file that its owner alone may read.
func tokenFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
