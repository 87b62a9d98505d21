package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/internal/free"
)

// maxSave is the limit of the time from a save to the first response of the new version, at the 99th percentile.
const maxSave = 500 * time.Millisecond

const (
	description = "local/node_modules/@octokit/openapi/generated/api.github.com.json"
	routes      = "config/routes.oas.json"
)

func developing() []scenario {
	return []scenario{{
		title: "A save that is served",
		text: "The client's command `gatewright dev`: the time from its start to its first response, and the time from a save to the first response of the new version, for 50 saves. A save renames\n" +
			"the new file over the old one. `gatewright dev` looks for changes every 50 ms, and reads the files once nothing has changed for 40 ms. The largest project has no limit, because most of\n" +
			"its time is spent in compilation.",
		options: "starts=11 saves=50",
		run: func(ctx context.Context, m *measurement) error {
			for _, name := range []string{"hello", "library"} {
				folder := filepath.Join(m.Dir, name)
				if err := os.CopyFS(folder, os.DirFS(filepath.Join("examples", name))); err != nil {
					return fmt.Errorf("copy an example: %w", err)
				}
				if err := dev(ctx, m, folder, "`examples/"+name+"`", maxSave); err != nil {
					return err
				}
			}
			large := filepath.Join(m.Dir, "github")
			if err := github(large); err != nil {
				return err
			}
			return dev(ctx, m, large, "the GitHub REST API, 1,223 operations", 0)
		},
	}}
}

// dev measures a project. most is the limit for a save, or 0 for none.
func dev(ctx context.Context, m *measurement, folder, name string, most time.Duration) error {
	var began, served []time.Duration
	for n := range m.Number("starts") + 1 {
		d, took, err := startDev(ctx, m, folder)
		if err != nil {
			return err
		}
		if n < m.Number("starts") {
			began = append(began, took)
			d.stop()
			continue
		}
		for range m.Number("saves") {
			took, err := d.save(ctx, folder)
			if err != nil {
				return err
			}
			served = append(served, took)
		}
		d.stop()
	}
	start, _ := sorted(began)
	m.Row(name+": from the start to the first response", "", "median "+millis(start), true)
	median, _ := sorted(served)
	last, limit := load.Percentile(served, 99), ""
	if most > 0 {
		limit = millis(most) + " at the 99th percentile"
	}
	m.Row(name+": from a save to the first response of the new version", limit, "median "+millis(median)+", 99th percentile "+millis(last), last <= most)
	return nil
}

// running is a process of `gatewright dev`.
type running struct {
	stop  func()
	load  load.Load
	build string // the build that responded last
}

// startDev starts `gatewright dev`, and returns the time until its first response.
func startDev(ctx context.Context, m *measurement, folder string) (*running, time.Duration, error) {
	binary, err := m.Build(ctx, world.Client)
	if err != nil {
		return nil, 0, err
	}
	at, err := free.Find(ctx)
	if err != nil {
		return nil, 0, err
	}
	cmd := exec.CommandContext(ctx, binary, "dev", folder, "--addr", at.String()) //nolint:gosec // G204: our own command
	var said bytes.Buffer
	cmd.Stderr = &said
	d := &running{
		load: load.Load{Address: at.String(), Request: load.Request("GET", "/__gatewright/build", at.String(), "", "")},
		stop: sync.OnceFunc(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		}),
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("start the client: %w", err)
	}
	m.AtEnd(d.stop) // after an error
	took, err := d.another(ctx, began)
	if err != nil {
		d.stop()
		return nil, 0, fmt.Errorf("%w: %s", err, said.Bytes())
	}
	return d, took, nil
}

// another waits until another build responds, and returns the time since began.
func (d *running) another(ctx context.Context, began time.Time) (time.Duration, error) {
	const interval, patience = time.Millisecond, time.Minute
	for time.Since(began) < patience {
		body, err := d.load.Once(ctx)
		if err == nil && string(body) != d.build {
			d.build = string(body)
			return time.Since(began), nil
		}
		if err != nil && d.build != "" {
			return 0, fmt.Errorf("after a save: %w", err)
		}
		if err := world.Wait(ctx, interval); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("gatewright dev has not served a new build within a minute")
}

// save changes the project, as an editor does that renames a new file over the old one. It returns the time until the change is served.
func (d *running) save(ctx context.Context, folder string) (time.Duration, error) {
	name := filepath.Join(folder, filepath.FromSlash(routes))
	text, err := os.ReadFile(name) //nolint:gosec // G304: a copy of ours
	if err != nil {
		return 0, fmt.Errorf("read a project: %w", err)
	}
	if err := os.WriteFile(name+"~", append(text, '\n'), 0o600); err != nil { //nolint:gosec // G703: a copy of ours
		return 0, fmt.Errorf("save a project: %w", err)
	}
	began := time.Now()
	if err := os.Rename(name+"~", name); err != nil {
		return 0, fmt.Errorf("save a project: %w", err)
	}
	return d.another(ctx, began)
}

// github writes a project from the description of the GitHub REST API, with a route for every operation.
func github(folder string) error {
	data, err := os.ReadFile(description)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the description of the GitHub REST API is missing: run npm ci --prefix local to install it")
	}
	if err != nil {
		return fmt.Errorf("read the GitHub description: %w", err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	var whole map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &document), json.Unmarshal(data, &whole)); err != nil {
		return fmt.Errorf("decode the GitHub description: %w", err)
	}
	for _, item := range document.Paths {
		for method, operation := range item {
			if !slices.Contains([]string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}, method) {
				continue
			}
			const route = `{"x-gateway-route": {"corsPolicy": "none", "policies": {"inbound": ["key"]}, "handler": {"export": "urlForwardHandler",
				"module": "$import(@gatewright/runtime)", "options": {"baseUrl": "http://127.0.0.1:9002"}}},`
			item[method] = json.RawMessage(route + strings.TrimPrefix(strings.TrimSpace(string(operation)), "{"))
		}
	}
	if whole["paths"], err = json.Marshal(document.Paths); err != nil {
		return fmt.Errorf("encode a project: %w", err)
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return fmt.Errorf("encode a project: %w", err)
	}
	const policies = `{"policies": [{"name": "key", "policyType": "api-key-inbound", "handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": {}}}]}`
	if err := os.MkdirAll(filepath.Join(folder, "config"), 0o700); err != nil {
		return fmt.Errorf("write a project: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, filepath.FromSlash(routes)), text, 0o600),
		os.WriteFile(filepath.Join(folder, "config", "policies.json"), []byte(policies), 0o600))
}
