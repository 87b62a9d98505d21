// Package world starts what internal/bench measures: the product and its processes as users start them, from built binaries, each
// over a folder of its own; projects that are deployed to it, with keys; and the upstreams behind it.
//
// It measures nothing. It runs on Linux only.
//
// Read world.go; project.go has what is deployed, and upstream.go what is behind it.
package world

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/gobuild"
	"github.com/gatewright/gatewright/local/instance"
)

// The programs that are measured, from the repository's root.
const (
	LocalRun = "./local"
	Client   = gobuild.Client
	Server   = "./cmd/gatewright-server"
)

// World is everything that a scenario starts. Close ends it.
type World struct {
	// Dir is a folder for data, which may become large.
	Dir string
	// Binaries is the folder of the programs. Those that are there are not built again.
	Binaries string

	mu    sync.Mutex
	stops []func()
}

// Close ends everything that was started and still runs, the last one first.
func (w *World) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := len(w.stops) - 1; n >= 0; n-- {
		w.stops[n]()
	}
	w.stops = nil
}

// AtEnd has Close call stop.
func (w *World) AtEnd(stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stops = append(w.stops, stop)
}

// Build builds a program with the flags of the Makefile unless this run has built it, and returns its path.
func (w *World) Build(ctx context.Context, pkg string) (string, error) {
	path := filepath.Join(w.Binaries, filepath.Base(pkg))
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, gobuild.Build(ctx, ".", pkg, path)
}

// Folder makes a folder below Dir, unless it is there.
func (w *World) Folder(name string) (string, error) {
	path := filepath.Join(w.Dir, name)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	return path, nil
}

// Serve starts an upstream in this process.
func (w *World) Serve() *Upstream {
	u := newUpstream()
	w.AtEnd(u.Close)
	return u
}

// Child starts this program in a role, which its arguments name.
func (w *World) Child(ctx context.Context, arguments ...string) (*load.Child, error) {
	c, err := load.StartChild(ctx, arguments...)
	if err == nil {
		w.AtEnd(c.Stop)
	}
	return c, err
}

// Product is a running product.
type Product struct {
	*instance.Instance
	load.Process

	stop sync.Once
}

// Stop ends the product as Ctrl-C does. It may be called more than once.
func (p *Product) Stop() { p.stop.Do(p.Instance.Stop) }

// Kill ends the product by SIGKILL. It may be called after Stop.
func (p *Product) Kill() { p.stop.Do(p.Instance.Kill) }

// Run starts the local run, as `make run` does, over the folder name. A second start over the same folder goes on with its data.
func (w *World) Run(ctx context.Context, name string, env ...string) (*Product, error) {
	binary, err := w.Build(ctx, LocalRun)
	if err != nil {
		return nil, err
	}
	return w.start(ctx, name, append(append([]string{"env"}, env...), binary)...)
}

func (w *World) start(ctx context.Context, name string, command ...string) (*Product, error) {
	dir, err := w.Folder(name)
	if err != nil {
		return nil, err
	}
	i, err := instance.Start(ctx, dir, "", command...)
	if err != nil {
		return nil, err
	}
	p := &Product{Instance: i, Process: load.PID(i.PID())}
	w.AtEnd(p.Stop)
	return p, nil
}

// Wait waits for d, or until ctx ends.
func Wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Until waits until ready returns true, or an error. what names it in the error of a wait that takes longer than a minute.
func Until(ctx context.Context, what string, ready func() (bool, error)) error {
	const patience, interval = time.Minute, 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := ready()
		if done || err != nil {
			return err
		}
		if err := Wait(ctx, interval); err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
	}
}

// host returns the host:port of a URL.
func host(url string) string {
	_, at, _ := strings.Cut(url, "://")
	return strings.TrimSuffix(at, "/")
}
