package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/local/instance"
)

// product is the running product, in a process of its own.
type product struct {
	*instance.Instance
	client client
}

// startTimeout bounds a start, and each request.
const startTimeout = 60 * time.Second

// start starts the product over the data directory and waits until it answers.
func start(ctx context.Context, binary, dir string) (*product, error) {
	i, err := instance.Start(ctx, dir, "", binary)
	if err != nil {
		return nil, err
	}
	return &product{i, client{api: i.API, key: i.Key, http: &http.Client{Timeout: startTimeout}}}, nil
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

// database returns the process id of the product's database.
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
			parent == p.PID() && name == "(dynoxide)" && state != "Z" {
			return pid, nil
		}
	}
	return 0, errors.New("the product has no database process")
}
