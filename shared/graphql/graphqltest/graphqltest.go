// Package graphqltest asks GraphQL.js, the reference implementation, what it makes of documents and of
// answers, so that tests compare with what is executed in the end and not with what was thought of
// here.
//
// It is for tests alone, and is no server: package gateway's tests have one of their own. Read this
// file first, then oracle.mjs, which has the schema.
package graphqltest

import (
	"bufio"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

//go:embed *.mjs
var scripts embed.FS

// Oracle is a process of Node with GraphQL.js. It is safe for concurrent use.
type Oracle struct {
	t   testing.TB
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// Start starts an Oracle that ends with the test. root is the path of the repository from the
// test's package. The test is skipped where npm's packages are not installed, but in
// continuous integration.
func Start(t testing.TB, root string) *Oracle {
	t.Helper()
	packages, err := filepath.Abs(filepath.Join(root, "local", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(packages), "node_modules", "graphql")); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("GraphQL.js is not there: npm ci --prefix local installs it")
	} else if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, scripts); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "oracle.mjs")
	cmd := exec.CommandContext(t.Context(), "node", file, packages) //nolint:gosec // the test's own files
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return &Oracle{t: t, in: in, out: bufio.NewReader(out)}
}

// Parsed is what a document has.
type Parsed struct {
	// Fields are the names of all fields and, behind "...", of all fragments that are spread, in
	// their order.
	Fields     []string
	Operations int
}

// Parse parses a document. refused says why it is none, "" for one.
func (o *Oracle) Parse(document string) (parsed Parsed, refused string) {
	o.t.Helper()
	return parsed, o.ask("parse", document, &parsed)
}

// Measured is what a document costs by the rules of docs/graphql.md.
type Measured struct {
	// Invalid is why it can't be executed, "" for one that can.
	Invalid     string
	Introspects bool
	Operations  []MeasuredOperation
}

// MeasuredOperation is one operation of a document.
type MeasuredOperation struct {
	Name, Type        string
	Depth, Complexity int
}

// Measure counts a document as measure.mjs does. refused says why it is none, "" for one.
func (o *Oracle) Measure(document string, ignored []string) (measured Measured, refused string) {
	o.t.Helper()
	return measured, o.ask("measure", map[string]any{"document": document, "ignored": ignored}, &measured)
}

// Execute answers a query about the schema of oracle.mjs, with its errors.
func (o *Oracle) Execute(query, operationName string) json.RawMessage {
	o.t.Helper()
	var answer json.RawMessage
	if refused := o.ask("execute", map[string]any{"query": query, "operationName": operationName}, &answer); refused != "" {
		o.t.Fatal(refused)
	}
	return answer
}

// ExecuteOn answers a query about another schema, in the schema definition language.
func (o *Oracle) ExecuteOn(sdl, query string) json.RawMessage {
	o.t.Helper()
	var answer json.RawMessage
	if refused := o.ask("execute", map[string]any{"sdl": sdl, "query": query}, &answer); refused != "" {
		o.t.Fatal(refused)
	}
	return answer
}

// Built is a client schema.
type Built struct {
	SDL string
	// Errors are what is wrong with the schema as one.
	Errors []string
}

// Build builds a client schema of an introspection's data. refused says why it can't be built.
func (o *Oracle) Build(data json.RawMessage) (built Built, refused string) {
	o.t.Helper()
	return built, o.ask("build", data, &built)
}

func (o *Oracle) ask(question string, argument, answer any) (refused string) {
	o.t.Helper()
	line, err := json.Marshal(map[string]any{question: argument})
	if err != nil {
		o.t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.in.Write(append(line, '\n')); err != nil {
		o.t.Fatal(err)
	}
	line, err = o.out.ReadBytes('\n')
	if err != nil {
		o.t.Fatal(err)
	}
	var out struct {
		Answer json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &out); err != nil {
		o.t.Fatal(err)
	}
	if out.Error == "" {
		if err := json.Unmarshal(out.Answer, answer); err != nil {
			o.t.Fatal(err)
		}
	}
	return out.Error
}
