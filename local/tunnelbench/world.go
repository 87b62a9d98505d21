package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/internal/printed"
	"github.com/gatewright/gatewright/local/instance"
)

// patience bounds how long something may take that is no figure.
const patience = time.Minute

// world is a product, a service of this process, and the agent between them.
type world struct {
	*instance.Instance
	service *service
	agent   *exec.Cmd
	site    string // the host of the deployment that leads to the service
}

// newWorld starts them.
func newWorld(ctx context.Context, dir string, o options) (_ *world, err error) {
	w := &world{service: newService()}
	defer func() {
		if err != nil {
			w.stop()
		}
	}()
	if w.Instance, err = started(ctx, filepath.Join(dir, "traffic"), o.binary); err != nil {
		return nil, err
	}
	if err := w.Into(ctx, nil, http.MethodPost, "/v1/projects?accountName=demo", `{"name":"bench"}`); err != nil {
		return nil, err
	}
	token, err := tunnel(ctx, w.Instance, w.Key, "demo", "bench", fmt.Sprintf(
		`{"version":1,"services":[{"name":"bench","endpoint":%q,"configurations":[{"project":"bench","accessibleBy":["production"]}]}]}`, w.service.URL))
	if err != nil {
		return nil, err
	}
	if err := w.connect(ctx, filepath.Join(dir, "token"), token, o.agent); err != nil {
		return nil, err
	}
	b, err := w.Deploy(ctx, "demo", "bench", instance.Archive(site()))
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(b.URL)
	if err != nil || b.Status != "SUCCESS" {
		return nil, fmt.Errorf("the project is not built: %+v, %w", b, err)
	}
	w.site = at.Host
	return w, nil
}

// started starts a product in a folder that is made.
func started(ctx context.Context, dir, binary string) (*instance.Instance, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	return instance.Start(ctx, dir, "", binary)
}

// tunnel makes a tunnel of an account, and gives its token. An empty configuration is for none.
func tunnel(ctx context.Context, i *instance.Instance, key, account, name, configuration string) (token string, err error) {
	status, raw, err := i.Ask(ctx, key, http.MethodPost, "/v1/accounts/"+account+"/tunnels", fmt.Sprintf(`{"name":%q}`, name))
	if err != nil {
		return "", err
	}
	var made struct{ TunnelID, Token string }
	if err := json.Unmarshal(raw, &made); err != nil || status != http.StatusCreated {
		return "", fmt.Errorf("make a tunnel: it is answered %d %s", status, raw)
	}
	if configuration == "" {
		return made.Token, nil
	}
	at := "/v1/accounts/" + account + "/tunnels/" + made.TunnelID
	var begun struct{ ID, Status string }
	if err := i.Into(ctx, &begun, http.MethodPut, at+"/services-configuration", configuration); err != nil {
		return "", err
	}
	return made.Token, until(ctx, func() (bool, error) {
		err := i.Into(ctx, &begun, http.MethodGet, at+"/provisioning-operations/"+begun.ID, "")
		if begun.Status == "failed" {
			return false, fmt.Errorf("the service is not provisioned")
		}
		return begun.Status == "success", err
	})
}

// connect starts the agent, and waits until it is connected.
func (w *world) connect(ctx context.Context, file, token, binary string) error {
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return fmt.Errorf("write the token: %w", err)
	}
	var out printed.Text
	w.agent = exec.CommandContext(ctx, binary, "tunnel", "connect", "--relay", w.Relay, "--token-file", file) //nolint:gosec // whoever runs this chose it
	w.agent.Stdout, w.agent.Stderr = &out, &out
	if err := w.agent.Start(); err != nil {
		return fmt.Errorf("start the agent: %w", err)
	}
	return until(ctx, func() (bool, error) { return strings.Contains(out.String(), "connected: 2 of 2"), nil })
}

func (w *world) stop() {
	if w.agent != nil && w.agent.Process != nil {
		_ = w.agent.Process.Signal(os.Interrupt)
		_ = w.agent.Wait()
	}
	if w.Instance != nil {
		w.Stop()
	}
	w.service.Close()
}

// gateway is where the product's gateway listens, host:port.
func (w *world) gateway() string { return strings.TrimPrefix(w.Gateway, "http://") }

// site leads everything to the service.
func site() map[string]string {
	operation := func(method string) string {
		return fmt.Sprintf(`%q:{"operationId":"bench-%s","responses":{"200":{"description":"ok"}},"x-gateway-route":{"corsPolicy":"none","handler":{`+
			`"export":"urlForwardHandler","module":"$import(@gatewright/runtime)","options":{"baseUrl":"service://bench"}}}}`, method, method)
	}
	return map[string]string{
		"gatewright.jsonc":       `{"version":1,"compatibilityDate":"2026-11-01","projectType":"self-hosted"}`,
		"config/routes.oas.json": `{"openapi":"3.1.0","info":{"title":"bench","version":"1"},"paths":{"/{what}":{` + operation("get") + "," + operation("post") + `}}}`,
	}
}

// service is what is behind the tunnel, and behind the proxies. It takes bodies and answers
// small ones, and gives large ones.
type service struct {
	*httptest.Server
	waiting sync.WaitGroup // of bodies that are not read yet
	open    chan struct{}  // closed when they are read
}

// What the service gives, in bytes.
const (
	small = 1 << 10
	large = 10 << 20
)

func newService() *service {
	s := &service{open: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /small", gives(small))
	mux.HandleFunc("GET /large", gives(large))
	mux.HandleFunc("POST /take", func(w http.ResponseWriter, r *http.Request) {
		if n, err := discard(r); err != nil || n != large {
			panic(http.ErrAbortHandler)
		}
		gives(small)(w, r)
	})
	mux.HandleFunc("POST /late", func(w http.ResponseWriter, r *http.Request) {
		s.waiting.Done()
		<-s.open
		if n, err := discard(r); err != nil || n != large {
			panic(http.ErrAbortHandler)
		}
		gives(small)(w, r)
	})
	s.Server = httptest.NewServer(mux)
	return s
}

func gives(n int) http.HandlerFunc {
	body := bytes.Repeat([]byte("x"), n)
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = []string{fmt.Sprint(n)}
		_, _ = w.Write(body)
	}
}

// until waits for something to become true.
func until(ctx context.Context, what func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := what()
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the product: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
