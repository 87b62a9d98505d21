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

	"github.com/gatewright/gatewright/internal/bench/world"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
)

const (
	page     = 1_000     // consumers that a request may list
	maxFiles = 200 << 20 // bytes of memory that a command may use
)

func accounts() []scenario {
	return []scenario{{
		title: "An account in files",
		text: "The client `gatewright` with an API in the measuring process: the number of requests that it sends for files with 20,000 consumers, and its peak memory. The limits are one request for\n" +
			"each 1,000 objects and for each change, one more for ETags ([0069](decisions/0069-etags-of-a-list-are-tried-once.md)), and 200 MB.",
		options: "consumers=20000 changes=1000",
		run: func(ctx context.Context, m *measurement) error {
			a := &account{m: m, all: map[string]consumer{}, count: m.Number("consumers")}
			server := httptest.NewServer(a)
			m.AtEnd(server.Close)
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
	Name string          `json:"name"`
	ID   string          `json:"id"`
	Text string          `json:"description,omitempty"`
	Tags json.RawMessage `json:"tags,omitempty"`
	Meta json.RawMessage `json:"metadata,omitempty"`
	When string          `json:"createdOn"`
}

// account is an API with one bucket. It counts the requests that it gets.
type account struct {
	m     *measurement
	url   string
	count int // consumers in the files

	mu    sync.Mutex
	names []string // in the order of the list
	all   map[string]consumer
	asked int
}

// file writes a file with all consumers, and another tag for the first others of them. It returns its path.
func (b *account) file(others int) (string, error) {
	var text strings.Builder
	text.WriteString("keyBuckets:\n  - name: partners\n    consumers:\n")
	for i := range b.count {
		plan := "gold"
		if i < others {
			plan = "free"
		}
		fmt.Fprintf(&text, "      - name: %s\n        description: A partner who sells for us, number %d\n        tags: {plan: %s, team: blue}\n        metadata: {tenant: %d, region: north}\n", fmt.Sprintf("consumer-%05d", i), i, plan, i)
	}
	path := filepath.Join(b.m.Dir, "account.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write a file: %w", err)
	}
	return path, nil
}

func (b *account) measure(ctx context.Context) error {
	files, err := b.file(0)
	if err != nil {
		return err
	}
	plan, lists, changes := filepath.Join(b.m.Dir, "plan"), 1+(b.count+page-1)/page, b.m.Number("changes")
	other := func() error {
		_, err := b.file(changes)
		return err
	}
	for _, c := range []struct {
		what   string
		most   int // requests
		before func() error
		args   []string
	}{
		{fmt.Sprintf("plan %d new consumers", b.count), 2, nil, []string{"plan", files, "--out", plan}}, // lists the buckets, and the consumers, which do not exist yet
		{"apply the plan", b.count, nil, []string{"apply", plan, "--timeout", "1h"}},
		{fmt.Sprintf("plan %d consumers that exist", b.count), lists, nil, []string{"plan", files}},
		{"export them", lists, nil, []string{"export", "keyBuckets"}},
		{fmt.Sprintf("plan %d changes of %d", changes, b.count), lists + 1, other, []string{"plan", files}},
	} {
		if c.before != nil {
			if err := c.before(); err != nil {
				return err
			}
		}
		if err := b.run(ctx, c.what, c.most, c.args...); err != nil {
			return err
		}
	}
	if len(b.names) != b.count {
		return fmt.Errorf("the API has %d consumers of %d in the files", len(b.names), b.count)
	}
	return nil
}

// run runs a command and adds its figures. It may send most requests.
func (b *account) run(ctx context.Context, what string, most int, args ...string) error {
	binary, err := b.m.Build(ctx, world.Client)
	if err != nil {
		return err
	}
	b.asked = 0
	cmd := exec.CommandContext(ctx, binary, append(args, "--account", "bench")...) //nolint:gosec // G204: our own command
	cmd.Env = append(os.Environ(), "GATEWRIGHT_URL="+b.url, "GATEWRIGHT_KEY_FILE="+filepath.Join(b.m.Dir, "key"), "GATEWRIGHT_PROFILES="+filepath.Join(b.m.Dir, "profiles.json"))
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, said.Bytes())
	}
	usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("the operating system does not report the memory of an ended process")
	}
	peak := int64(usage.Maxrss) << 10 //nolint:unconvert // it is narrower on 32 bits
	b.m.Row(what+": requests", strconv.Itoa(most), strconv.Itoa(b.asked), 0 < b.asked && b.asked <= most)
	b.m.Row(what+": memory", megabytes(maxFiles), megabytes(peak), peak <= maxFiles)
	return nil
}

// ServeHTTP responds as the API does, but does not check the key.
func (b *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	const buckets = "/v1/accounts/bench/key-buckets"
	rest := strings.TrimPrefix(r.URL.Path, buckets)
	of := strings.TrimPrefix(rest, "/partners/consumers/")
	known, there := b.all[of]
	var err error
	switch {
	case rest == "" && r.Method == http.MethodGet:
		err = answer(w, map[string]any{"data": []any{map[string]any{"id": "bckt_1", "name": "partners"}}, "total": 1, "limit": page, "offset": 0})
	case rest == "/partners/consumers" && r.Method == http.MethodGet:
		err = b.list(w, r)
	case rest == "/partners/consumers" && r.Method == http.MethodPost:
		err = b.create(w, r)
	case there && r.Method == http.MethodGet:
		var text []byte
		if text, err = json.Marshal(known); err == nil {
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

func answer(w http.ResponseWriter, body any) error {
	w.Header().Set("Content-Type", "application/json")
	return json.NewEncoder(w).Encode(body)
}

func (b *account) list(w http.ResponseWriter, r *http.Request) error {
	from, _ := strconv.Atoi(r.URL.Query().Get("after"))
	to := min(from+page, len(b.names))
	data := []consumer{}
	for _, name := range b.names[from:to] {
		data = append(data, b.all[name])
	}
	var next any
	if to < len(b.names) {
		next = strconv.Itoa(to)
	}
	return answer(w, map[string]any{"data": data, "total": len(b.names), "limit": page, "offset": 0, "next": next})
}

func (b *account) create(w http.ResponseWriter, r *http.Request) error {
	var c consumer
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Name == "" || b.all[c.Name].Name != "" {
		return errors.Join(errors.New("the body is not a new consumer with a name"), err)
	}
	c.ID, c.When = fmt.Sprintf("csmr_%024d", len(b.names)), "2030-01-01T00:00:00.000Z"
	b.names, b.all[c.Name] = append(b.names, c.Name), c
	return answer(w, c)
}
