// Command filesbench measures what an account in files costs: how many requests `gatewright plan` and `gatewright apply` send for
// 20,000 consumers, and how much memory they take. It asks the binary that users have, of an API that is this process.
//
// `make bench` runs it. It fails when a figure is beyond its bar (issue 16, part 7).
//
// Read this file first; peak_linux.go has what a process took of the memory.
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
	"time"

	"github.com/gatewright/gatewright/internal/bars"
	"github.com/gatewright/gatewright/internal/gobuild"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/ids"
)

const (
	consumers = 20_000
	page      = 1_000
	changed   = 1_000
	// mostMemory is the most that a command may take, in bytes (issue 16, part 7).
	mostMemory = 200 << 20
)

func main() {
	bars.Main(context.Background(), "filesbench", func(ctx context.Context, dir string, table *bars.Table) error {
		binary := filepath.Join(dir, "gatewright")
		if err := gobuild.Build(ctx, ".", gobuild.Client, binary); err != nil {
			return err
		}
		b := &bench{dir: dir, binary: binary, table: table, all: map[string]consumer{}}
		server := httptest.NewServer(b)
		defer server.Close()
		b.url = server.URL
		if err := os.WriteFile(filepath.Join(dir, "key"), []byte(credential.New(credential.AccountKey, ids.NewSource(rand.Reader, time.Now))+"\n"), 0o600); err != nil {
			return fmt.Errorf("write a key: %w", err)
		}
		return b.measure(ctx)
	})
}

// consumer is one that the API has.
type consumer struct {
	Name string          `json:"name"`
	ID   string          `json:"id"`
	Text string          `json:"description,omitempty"`
	Tags json.RawMessage `json:"tags,omitempty"`
	Meta json.RawMessage `json:"metadata,omitempty"`
	When string          `json:"createdOn"`
}

// bench is the API of one bucket, and what is measured of who asks it.
type bench struct {
	dir, binary, url string
	table            *bars.Table

	mu    sync.Mutex
	names []string // in the order of the list
	all   map[string]consumer
	asked int
}

// file writes the consumers as a file has them, the first few with another tag.
func (b *bench) file(others int) (string, error) {
	var text strings.Builder
	text.WriteString("keyBuckets:\n  - name: partners\n    consumers:\n")
	for i := range consumers {
		plan := "gold"
		if i < others {
			plan = "free"
		}
		fmt.Fprintf(&text, "      - name: %s\n        description: A partner who sells for us, number %d\n        tags: {plan: %s, team: blue}\n        metadata: {tenant: %d, region: north}\n", name(i), i, plan, i)
	}
	path := filepath.Join(b.dir, "account.yaml")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write a file: %w", err)
	}
	return path, nil
}

func name(i int) string { return fmt.Sprintf("consumer-%05d", i) }

func (b *bench) measure(ctx context.Context) error {
	files, err := b.file(0)
	if err != nil {
		return err
	}
	const lists = 2 // the buckets, and their consumers, of which there are none
	if err := b.run(ctx, "plan 20,000 that are not there", lists, "plan", files, "--out", filepath.Join(b.dir, "plan")); err != nil {
		return err
	}
	if err := b.run(ctx, "apply it", consumers, "apply", filepath.Join(b.dir, "plan"), "--timeout", "1h"); err != nil {
		return err
	}
	if err := b.run(ctx, "plan 20,000 that are", 1+consumers/page, "plan", files); err != nil {
		return err
	}
	if err := b.run(ctx, "export them", 1+consumers/page, "export", "keyBuckets"); err != nil {
		return err
	}
	if files, err = b.file(changed); err != nil {
		return err
	}
	return b.run(ctx, "plan 1,000 changes of 20,000", 1+consumers/page+1, "plan", files)
}

// run adds the figures of a command, which may send so many requests.
func (b *bench) run(ctx context.Context, what string, most int, args ...string) error {
	b.asked = 0
	cmd := exec.CommandContext(ctx, b.binary, append(args, "--account", "bench")...) //nolint:gosec // our own command
	cmd.Env = append(os.Environ(), "GATEWRIGHT_URL="+b.url, "GATEWRIGHT_KEY_FILE="+filepath.Join(b.dir, "key"), "GATEWRIGHT_PROFILES="+filepath.Join(b.dir, "profiles.json"))
	var told bytes.Buffer
	cmd.Stderr = &told
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, told.Bytes())
	}
	peak, err := peakOf(cmd.ProcessState)
	if err != nil {
		return err
	}
	b.table.Add(what+": requests", strconv.Itoa(most), strconv.Itoa(b.asked), b.asked <= most)
	b.table.Add(what+": memory", fmt.Sprintf("%d MB", mostMemory>>20), fmt.Sprintf("%d MB", peak>>20), peak <= mostMemory)
	return nil
}

// ServeHTTP answers as the API does, without a look at the key.
func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

func (b *bench) list(w http.ResponseWriter, r *http.Request) error {
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

func (b *bench) create(w http.ResponseWriter, r *http.Request) error {
	var c consumer
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.Name == "" || b.all[c.Name].Name != "" {
		return errors.Join(errors.New("it is no new consumer"), err)
	}
	c.ID, c.When = fmt.Sprintf("csmr_%024d", len(b.names)), "2030-01-01T00:00:00.000Z"
	b.names, b.all[c.Name] = append(b.names, c.Name), c
	return answer(w, c)
}
