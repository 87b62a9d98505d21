// Command devbench measures how soon `gatewright dev` serves: from its start to the first answer, and from a save to the
// first answer of the new version. It asks the binary that users have, over HTTP.
//
// `make bench` runs it. It fails when a figure is beyond its bar (issue 16, part 5).
//
// There is only this file.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/gobuild"
)

// mostSave is the most that a save may take until it is served (issue 16, part 5).
const mostSave = 500 * time.Millisecond

const (
	description = "local/node_modules/@octokit/openapi/generated/api.github.com.json"
	routes      = "config/routes.oas.json"
)

func main() {
	saves := flag.Int("saves", 50, "how often each project is saved")
	starts := flag.Int("starts", 11, "how often each project is started")
	flag.Parse()
	bars.Main(context.Background(), "devbench", func(ctx context.Context, dir string, table *bars.Table) error {
		binary := filepath.Join(dir, "gatewright")
		if err := gobuild.Build(ctx, ".", gobuild.Client, binary); err != nil {
			return err
		}
		for _, name := range []string{"hello", "library"} {
			folder := filepath.Join(dir, name)
			if err := os.CopyFS(folder, os.DirFS(filepath.Join("examples", name))); err != nil {
				return fmt.Errorf("copy an example: %w", err)
			}
			if err := measure(ctx, binary, folder, "`examples/"+name+"`", mostSave, *starts, *saves, table); err != nil {
				return err
			}
		}
		large := filepath.Join(dir, "github")
		if err := github(large); err != nil {
			return err
		}
		return measure(ctx, binary, large, "the GitHub REST API, 1,223 operations", 0, *starts, *saves, table)
	})
}

// measure adds the figures of a project, of which a save may take the most, 0 for one that has no bar: what it takes to compile.
func measure(ctx context.Context, binary, folder, name string, most time.Duration, starts, saves int, table *bars.Table) error {
	var began []time.Duration
	for range starts {
		d, err := start(ctx, binary, folder)
		if err != nil {
			return err
		}
		began = append(began, d.took)
		d.end()
	}
	d, err := start(ctx, binary, folder)
	if err != nil {
		return err
	}
	defer d.end()
	var served []time.Duration
	for range saves {
		took, err := d.save(ctx, folder)
		if err != nil {
			return err
		}
		served = append(served, took)
	}
	slices.Sort(began)
	slices.Sort(served)
	table.Add(name+": from the start to the first answer", "", "median "+short(began[len(began)/2]), true)
	last := served[(len(served)*99-1)/100]
	bar := ""
	if most > 0 {
		bar = short(most) + " at the 99th percentile"
	}
	table.Add(name+": from a save to the first answer of it", bar, "median "+short(served[len(served)/2])+", 99th percentile "+short(last), most == 0 || last <= most)
	return nil
}

func short(d time.Duration) string { return d.Round(time.Millisecond).String() }

// running is a dev that runs.
type running struct {
	cmd  *exec.Cmd
	url  string
	took time.Duration // until its first answer
	seen string        // the build that answered last
}

// start starts one, and waits until it answers.
func start(ctx context.Context, binary, folder string) (*running, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("find a free port: %w", err)
	}
	addr := l.Addr().String()
	_ = l.Close()                                                                                              // nothing was served
	r := &running{cmd: exec.CommandContext(ctx, binary, "dev", folder, "--addr", addr), url: "http://" + addr} //nolint:gosec // our own command
	var told bytes.Buffer
	r.cmd.Stderr = &told
	begun := time.Now()
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the client: %w", err)
	}
	for time.Since(begun) < time.Minute {
		if r.seen, err = r.build(ctx); err == nil {
			r.took = time.Since(begun)
			return r, nil
		}
		time.Sleep(time.Millisecond)
	}
	r.end()
	return nil, fmt.Errorf("it does not answer: %w: %s", err, told.Bytes())
}

func (r *running) end() {
	_ = r.cmd.Process.Signal(os.Interrupt)
	_ = r.cmd.Wait() // how it ends is a test's affair
}

// build asks which build answers.
func (r *running) build(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"/__gatewright/build", http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %d: %s", response.StatusCode, body)
	}
	return string(body), err
}

// save changes the project, as an editor that writes by renaming, and waits until that is served.
func (r *running) save(ctx context.Context, folder string) (time.Duration, error) {
	name := filepath.Join(folder, filepath.FromSlash(routes))
	text, err := os.ReadFile(name) //nolint:gosec // a copy of ours
	if err != nil {
		return 0, fmt.Errorf("read a project: %w", err)
	}
	if err := os.WriteFile(name+"~", append(text, '\n'), 0o600); err != nil { //nolint:gosec // a copy of ours
		return 0, fmt.Errorf("save a project: %w", err)
	}
	begun := time.Now()
	if err := os.Rename(name+"~", name); err != nil {
		return 0, fmt.Errorf("save a project: %w", err)
	}
	for time.Since(begun) < time.Minute {
		now, err := r.build(ctx)
		if err != nil {
			return 0, fmt.Errorf("after a save: %w", err)
		}
		if now != r.seen {
			r.seen = now
			return time.Since(begun), nil
		}
		time.Sleep(time.Millisecond)
	}
	return 0, errors.New("a save is not served within a minute")
}

// github writes a project of the description of the GitHub REST API, with a route beside every operation.
func github(folder string) error {
	data, err := os.ReadFile(description)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the GitHub description is not there: npm ci --prefix local installs it")
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
