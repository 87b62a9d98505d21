package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/gatewright/gatewright/internal/printed"
)

// Service is the name of the service that NewTunnel provisions; projects reach it as service://stock.
const Service = "stock"

// NewTunnel creates a tunnel of an account by its key and returns the tunnel's token. Unless endpoint is "", the tunnel provides
// it as Service to the project.
func (p *Product) NewTunnel(ctx context.Context, key, account, name, endpoint string) (token string, err error) {
	status, raw, err := p.Ask(ctx, key, http.MethodPost, "/v1/accounts/"+account+"/tunnels", fmt.Sprintf(`{"name":%q}`, name))
	if err != nil {
		return "", err
	}
	var made struct{ TunnelID, Token string }
	if err := json.Unmarshal(raw, &made); err != nil || status != http.StatusCreated {
		return "", errors.Join(fmt.Errorf("create a tunnel: status %d: %s", status, raw), err)
	}
	if endpoint == "" {
		return made.Token, nil
	}
	at := "/v1/accounts/" + account + "/tunnels/" + made.TunnelID
	var begun struct{ ID, Status string }
	if err := p.Into(ctx, &begun, http.MethodPut, at+"/services-configuration", fmt.Sprintf(
		`{"version":1,"services":[{"name":%q,"endpoint":%q,"configurations":[{"project":"bench","accessibleBy":["production"]}]}]}`, Service, endpoint)); err != nil {
		return "", err
	}
	return made.Token, Until(ctx, "the service of a tunnel", func() (bool, error) {
		err := p.Into(ctx, &begun, http.MethodGet, at+"/provisioning-operations/"+begun.ID, "")
		if begun.Status == "failed" {
			return false, errors.New("the service of a tunnel is not provisioned")
		}
		return begun.Status == "success", err
	})
}

// Agent is a process of `gatewright tunnel connect`.
type Agent struct {
	binary    string
	arguments []string
	env       []string
	cmd       *exec.Cmd
}

// Agent returns an agent for a tunnel, which is not started. arguments say where the relay is.
func (w *World) Agent(ctx context.Context, token string, env []string, arguments ...string) (*Agent, error) {
	binary, err := w.Build(ctx, Client)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.Dir, "token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return nil, fmt.Errorf("write a token: %w", err)
	}
	a := &Agent{binary: binary, arguments: append([]string{"tunnel", "connect", "--token-file", file}, arguments...), env: env}
	w.AtEnd(a.Stop)
	return a, nil
}

// Start starts the agent, and returns when it is connected.
func (a *Agent) Start(ctx context.Context) error {
	var out printed.Text
	cmd := exec.Command(a.binary, a.arguments...) //nolint:gosec,noctx // Stop ends it
	cmd.Env = append(os.Environ(), a.env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start an agent: %w", err)
	}
	a.cmd = cmd
	if err := Until(ctx, "an agent", func() (bool, error) { return strings.Contains(out.String(), "connected: 2 of 2"), nil }); err != nil {
		return fmt.Errorf("%w: %s", err, out.String())
	}
	return nil
}

// PID returns the process's id.
func (a *Agent) PID() int { return a.cmd.Process.Pid }

// Stop ends the agent. It does nothing if the agent does not run.
func (a *Agent) Stop() {
	if a.cmd != nil {
		_ = a.cmd.Process.Signal(os.Interrupt)
		_ = a.cmd.Wait()
		a.cmd = nil
	}
}
