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

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/freeport"
)

// maxSaveTime is the maximum 99th percentile of the time from a save to the first response of the new version.
const maxSaveTime = 500 * time.Millisecond

const (
	githubDescription = "local/dev/node_modules/@octokit/openapi/generated/api.github.com.json"
	routesFile        = "config/routes.oas.json"
)

func devScenarios() []scenario {
	return []scenario{{
		title: "A save that is served",
		text: "The client's command `gatewright dev`: the time from its start to its first response, and the time from a " +
			"save to the first response of the new version, for 50 saves. A save renames\n" +
			"the new file over the old one. `gatewright dev` looks for changes every 50 ms, and reads the files once nothing " +
			"has changed for 40 ms. The largest project has no limit, because most of\n" +
			"its time is spent in compilation.",
		options: "starts=11 saves=50",
		run: func(ctx context.Context, m *measurement) error {
			for _, name := range []string{"hello", "library"} {
				folder := filepath.Join(m.Dir, name)
				if err := os.CopyFS(folder, os.DirFS(filepath.Join("examples", name))); err != nil {
					return fmt.Errorf("copy an example: %w", err)
				}
				if err := measureDev(ctx, m, folder, "`examples/"+name+"`", maxSaveTime); err != nil {
					return err
				}
			}
			large := filepath.Join(m.Dir, "github")
			if err := writeGitHubProject(large); err != nil {
				return err
			}
			return measureDev(ctx, m, large, "the GitHub REST API, 1,223 operations", 0)
		},
	}}
}

// measureDev measures starts and saves of a project. After the measured starts, it starts the client once more for the
// saves. maxElapsed is the limit for the 99th percentile of saves, or 0 for none.
func measureDev(ctx context.Context, m *measurement, folder, name string, maxElapsed time.Duration) error {
	var startTimes, saveTimes []time.Duration
	for n := range m.Number("starts") + 1 {
		d, elapsed, err := startDev(ctx, m, folder)
		if err != nil {
			return err
		}
		if n < m.Number("starts") {
			startTimes = append(startTimes, elapsed)
			d.stop()
			continue
		}
		for range m.Number("saves") {
			elapsed, err := d.save(ctx, folder)
			if err != nil {
				return err
			}
			saveTimes = append(saveTimes, elapsed)
		}
		d.stop()
	}
	start, _ := medianAndLongest(startTimes)
	m.Row(name+": from the start to the first response", "", "median "+millis(start), true)
	median, _ := medianAndLongest(saveTimes)
	p99, limit := load.Percentile(saveTimes, 99), ""
	if maxElapsed > 0 {
		limit = millis(maxElapsed) + " at the 99th percentile"
	}
	m.Row(name+": from a save to the first response of the new version", limit,
		"median "+millis(median)+", 99th percentile "+millis(p99), p99 <= maxElapsed)
	return nil
}

// devProcess is a process of `gatewright dev`.
type devProcess struct {
	stop  func()
	load  load.Load
	build string // the body of the last response, which identifies the build
}

// startDev starts `gatewright dev` for the project in a folder. It returns the process and the time until its first
// response.
func startDev(ctx context.Context, m *measurement, folder string) (*devProcess, time.Duration, error) {
	binary, err := m.Build(ctx, fixture.Client)
	if err != nil {
		return nil, 0, err
	}
	address, err := freeport.Find(ctx)
	if err != nil {
		return nil, 0, err
	}
	//nolint:gosec // G204: built here
	cmd := exec.CommandContext(ctx, binary, "dev", folder, "--addr", address.String())
	var output bytes.Buffer
	cmd.Stderr = &output
	d := &devProcess{
		load: load.Load{Address: address.String(), Request: load.Request("GET", "/__gatewright/build", address.String(), "",
			"")},
		stop: sync.OnceFunc(func() {
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
		}),
	}
	startedAt := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("start the client: %w", err)
	}
	m.Cleanup(d.stop) // after an error
	elapsed, err := d.waitForBuild(ctx, startedAt)
	if err != nil {
		d.stop()
		return nil, 0, fmt.Errorf("%w: %s", err, output.Bytes())
	}
	return d, elapsed, nil
}

// waitForBuild waits until a response comes from another build than the last response, and returns the time since
// startedAt.
func (d *devProcess) waitForBuild(ctx context.Context, startedAt time.Time) (time.Duration, error) {
	const interval, timeout = time.Millisecond, time.Minute
	for time.Since(startedAt) < timeout {
		body, err := d.load.Once(ctx)
		if err == nil && string(body) != d.build {
			d.build = string(body)
			return time.Since(startedAt), nil
		}
		if err != nil && d.build != "" {
			return 0, fmt.Errorf("after a save: %w", err)
		}
		if err := fixture.Wait(ctx, interval); err != nil {
			return 0, err
		}
	}
	return 0, errors.New("gatewright dev did not serve a new build within a minute")
}

// save changes the project. Like many editors, it renames a new file over the old one. It returns the time until the change is served.
func (d *devProcess) save(ctx context.Context, folder string) (time.Duration, error) {
	name := filepath.Join(folder, filepath.FromSlash(routesFile))
	text, err := os.ReadFile(name) //nolint:gosec // G304: in a copy
	if err != nil {
		return 0, fmt.Errorf("read a project: %w", err)
	}
	if err := os.WriteFile(name+"~", append(text, '\n'), 0o600); err != nil { //nolint:gosec // G703: in a copy
		return 0, fmt.Errorf("save a project: %w", err)
	}
	startedAt := time.Now()
	if err := os.Rename(name+"~", name); err != nil {
		return 0, fmt.Errorf("save a project: %w", err)
	}
	return d.waitForBuild(ctx, startedAt)
}

// writeGitHubProject writes a project from the description of the GitHub REST API, with a route for every operation.
func writeGitHubProject(folder string) error {
	data, err := os.ReadFile(githubDescription)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the description of the GitHub REST API is missing: run npm ci --prefix local/dev to install it")
	}
	if err != nil {
		return fmt.Errorf("read the GitHub description: %w", err)
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	var fields map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(data, &document), json.Unmarshal(data, &fields)); err != nil {
		return fmt.Errorf("decode the GitHub description: %w", err)
	}
	for _, item := range document.Paths {
		for method, operation := range item {
			if !slices.Contains(project.Methods(), method) {
				continue
			}
			const route = `{"x-gateway-route": {"corsPolicy": "none", "policies": {"inbound": ["key"]},
				"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
				"options": {"baseUrl": "http://127.0.0.1:9002"}}},`
			item[method] = json.RawMessage(route + strings.TrimPrefix(strings.TrimSpace(string(operation)), "{"))
		}
	}
	if fields["paths"], err = json.Marshal(document.Paths); err != nil {
		return fmt.Errorf("encode a project: %w", err)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("encode a project: %w", err)
	}
	const policies = `{"policies": [{"name": "key", "policyType": "api-key-inbound",
		"handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": {}}}]}`
	if err := os.MkdirAll(filepath.Join(folder, "config"), 0o700); err != nil {
		return fmt.Errorf("write a project: %w", err)
	}
	return errors.Join(
		os.WriteFile(filepath.Join(folder, filepath.FromSlash(routesFile)), text, 0o600),
		os.WriteFile(filepath.Join(folder, "config", "policies.json"), []byte(policies), 0o600))
}
