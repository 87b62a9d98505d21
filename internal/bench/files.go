package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/format/credential"
)

const (
	pageSize        = 1_000     // the limit for consumers in one response
	maxClientMemory = 200 << 20 // the limit for a command's memory, in bytes
)

func accounts() []scenario {
	return []scenario{{
		title: "An account in files",
		text: "The client `gatewright` with an API in the measuring process: the number of requests that it sends for " +
			"files with 20,000 consumers, and its peak memory. The limits are one request for\n" +
			"each 1,000 objects and for each change, one more for ETags " +
			"([0069](decisions/0069-etags-of-a-list-are-tried-once.md)), and 200 MB.",
		options: "consumers=20000 changes=1000",
		run: func(ctx context.Context, m *measurement) error {
			a := &fakeAPI{m: m, consumers: map[string]consumer{}, count: m.Number("consumers")}
			server := httptest.NewServer(a)
			m.Cleanup(server.Close)
			a.url = server.URL
			key := credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))
			if err := os.WriteFile(filepath.Join(m.Dir, "key"), []byte(key+"\n"), 0o600); err != nil {
				return fmt.Errorf("write a key: %w", err)
			}
			return a.measure(ctx)
		},
	}}
}

// consumer is a consumer in the responses of the API.
type consumer struct {
	Name        string          `json:"name"`
	ID          string          `json:"id"`
	Description string          `json:"description,omitempty"`
	Tags        json.RawMessage `json:"tags,omitempty"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	CreatedOn   string          `json:"createdOn"`
}

// fakeAPI is a fake management API with one bucket. It counts the requests that it receives.
type fakeAPI struct {
	m     *measurement
	url   string
	count int // consumers in the files

	mu        sync.Mutex
	names     []string // in the order of the list
	consumers map[string]consumer
	requests  int
}

// writeFile writes a file with all consumers, and returns its path. changed is the number of consumers at the beginning
// of the file whose tag plan is free instead of gold.
func (a *fakeAPI) writeFile(changed int) (string, error) {
	var text strings.Builder
	text.WriteString("keyBuckets:\n  - name: partners\n    consumers:\n")
	for i := range a.count {
		plan := "gold"
		if i < changed {
			plan = "free"
		}
		fmt.Fprintf(&text, "      - name: %s\n        description: A partner who sells for us, number %d\n        tags: "+
			"{plan: %s, team: blue}\n        metadata: {tenant: %d, region: north}\n", fmt.Sprintf("consumer-%05d", i), i, plan,
			i)
	}
	path := filepath.Join(a.m.Dir, "account.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write a file: %w", err)
	}
	return path, nil
}

// measure runs the commands for files against the fake API, and checks how many requests each sends.
func (a *fakeAPI) measure(ctx context.Context) error {
	files, err := a.writeFile(0)
	if err != nil {
		return err
	}
	plan, lists, changes := filepath.Join(a.m.Dir, "plan"), 1+(a.count+pageSize-1)/pageSize, a.m.Number("changes")
	change := func() error {
		_, err := a.writeFile(changes)
		return err
	}
	for _, c := range []struct {
		description string
		maxRequests int
		before      func() error
		args        []string
	}{
		// two requests: one lists the buckets, one the consumers, which do not exist yet
		{fmt.Sprintf("plan %d new consumers", a.count), 2, nil, []string{"plan", files, "--out", plan}},
		{"apply the plan", a.count, nil, []string{"apply", plan, "--timeout", "1h"}},
		{fmt.Sprintf("plan %d consumers that exist", a.count), lists, nil, []string{"plan", files}},
		{"export them", lists, nil, []string{"export", "keyBuckets"}},
		{fmt.Sprintf("plan %d changes of %d", changes, a.count), lists + 1, change, []string{"plan", files}},
	} {
		if c.before != nil {
			if err := c.before(); err != nil {
				return err
			}
		}
		if err := a.run(ctx, c.description, c.maxRequests, c.args...); err != nil {
			return err
		}
	}
	if len(a.names) != a.count {
		return fmt.Errorf("the API has %d consumers of %d in the files", len(a.names), a.count)
	}
	return nil
}

// run runs a command of the client, and adds rows with its requests and its memory. maxRequests is the limit for the
// requests.
func (a *fakeAPI) run(ctx context.Context, description string, maxRequests int, args ...string) error {
	binary, err := a.m.Build(ctx, fixture.Client)
	if err != nil {
		return err
	}
	a.requests = 0
	cmd := exec.CommandContext(ctx, binary, append(args, "--account", "bench")...) //nolint:gosec // G204: built here
	cmd.Env = append(os.Environ(), "GATEWRIGHT_URL="+a.url, "GATEWRIGHT_KEY_FILE="+filepath.Join(a.m.Dir, "key"),
		"GATEWRIGHT_PROFILES="+filepath.Join(a.m.Dir, "profiles.json"))
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", description, err, output.Bytes())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("the operating system does not report the memory of an ended process")
	}
	peak := int64(usage.Maxrss) << 10 //nolint:unconvert // Maxrss is an int32 on 32-bit systems
	a.m.Row(description+": requests", strconv.Itoa(maxRequests), strconv.Itoa(a.requests), 0 < a.requests &&
		a.requests <= maxRequests)
	a.m.Row(description+": memory", megabytes(maxClientMemory), megabytes(peak), peak <= maxClientMemory)
	return nil
}

// ServeHTTP responds as the API does, but does not check the key.
func (a *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests++
	const buckets = "/v1/accounts/bench/key-buckets"
	path := strings.TrimPrefix(r.URL.Path, buckets)
	name := strings.TrimPrefix(path, "/partners/consumers/")
	stored, exists := a.consumers[name]
	var err error
	switch {
	case path == "" && r.Method == http.MethodGet:
		err = writeJSON(w, map[string]any{
			"data": []any{map[string]any{"id": "bckt_1", "name": "partners"}}, "total": 1,
			"limit": pageSize, "offset": 0,
		})
	case path == "/partners/consumers" && r.Method == http.MethodGet:
		err = a.list(w, r)
	case path == "/partners/consumers" && r.Method == http.MethodPost:
		err = a.create(w, r)
	case exists && r.Method == http.MethodGet:
		var text []byte
		if text, err = json.Marshal(stored); err == nil {
			text = append(text, '\n')
			sum := sha256.Sum256(text)
			w.Header().Set("ETag", `"`+base64.RawURLEncoding.EncodeToString(sum[:16])+`"`)
			_, err = w.Write(text)
		}
	default:
		http.NotFound(w, r)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

func writeJSON(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(body)
}

// list responds with a page of consumers.
func (a *fakeAPI) list(w http.ResponseWriter, r *http.Request) error {
	from, _ := strconv.Atoi(r.URL.Query().Get("after"))
	to := min(from+pageSize, len(a.names))
	data := []consumer{}
	for _, name := range a.names[from:to] {
		data = append(data, a.consumers[name])
	}
	var next any
	if to < len(a.names) {
		next = strconv.Itoa(to)
	}
	return writeJSON(w, map[string]any{"data": data, "total": len(a.names), "limit": pageSize, "offset": 0, "next": next})
}

// create adds the consumer in the body.
func (a *fakeAPI) create(w http.ResponseWriter, r *http.Request) error {
	var c consumer
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Name == "" || a.consumers[c.Name].Name != "" {
		return errors.Join(errors.New("the body is not a new consumer with a name"), err)
	}
	c.ID, c.CreatedOn = fmt.Sprintf("csmr_%024d", len(a.names)), "2030-01-01T00:00:00.000Z"
	a.names, a.consumers[c.Name] = append(a.names, c.Name), c
	return writeJSON(w, c)
}
