package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// product is the running product, in a process of its own.
type product struct {
	cmd    *exec.Cmd
	done   chan struct{}
	output *bytes.Buffer
	client client
}

// startTimeout is how long a start may take; it takes a fraction of a second.
const startTimeout = 60 * time.Second

// start starts the product over the data directory and waits until it answers.
func start(ctx context.Context, binary, dir string) (*product, error) {
	ready := filepath.Join(dir, "ready")
	if err := os.Remove(ready); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the ready file: %w", err)
	}
	p := &product{cmd: exec.Command(binary), done: make(chan struct{}), output: new(bytes.Buffer)} //nolint:noctx // it is to be killed, not cancelled
	p.cmd.Env = append(os.Environ(),
		"GATEWRIGHT_DATA_DIR="+filepath.Join(dir, "data"),
		"GATEWRIGHT_READY_FILE="+ready,
		"GATEWRIGHT_API_ADDR=127.0.0.1:0",
		"GATEWRIGHT_GATEWAY_ADDR=127.0.0.1:0",
	)
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		content, err := os.ReadFile(ready) //nolint:gosec // G304: our own directory
		if err == nil {
			api, _, _ := strings.Cut(string(content), "\n")
			key, err := os.ReadFile(filepath.Join(dir, "data", "account-key")) //nolint:gosec // G304: our own directory
			if err != nil {
				p.kill()
				return nil, fmt.Errorf("read the account key: %w", err)
			}
			p.client = client{api: api, key: strings.TrimSpace(string(key)), http: &http.Client{Timeout: startTimeout}}
			return p, nil
		}
		select {
		case <-p.done:
			return nil, fmt.Errorf("the product ended at its start: %s", p.output)
		case <-ctx.Done():
			p.kill()
			return nil, fmt.Errorf("the product did not get ready: %w: %s", ctx.Err(), p.output)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// kill ends the process without a word. It may be called more than once.
func (p *product) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// killDatabase kills the product's database, and returns when another one has
// taken its place.
func (p *product) killDatabase(ctx context.Context) error {
	victim, err := p.database()
	if err != nil {
		return err
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		return fmt.Errorf("kill the database: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if now, err := p.database(); err == nil && now != victim {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.New("the database was not started again")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// database gives the process id of the product's database.
func (p *product) database() (int, error) {
	children, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, fmt.Errorf("list the processes: %w", err)
	}
	for _, path := range children {
		content, err := os.ReadFile(path) //nolint:gosec // G304: of /proc
		if err != nil {
			continue // it has ended
		}
		var pid, parent int
		var name, state string
		if _, err := fmt.Sscanf(string(content), "%d %s %s %d", &pid, &name, &state, &parent); err == nil &&
			parent == p.cmd.Process.Pid && name == "(dynoxide)" && state != "Z" {
			return pid, nil
		}
	}
	return 0, errors.New("the product has no database process")
}
