// Package graphqltest runs documents and responses through GraphQL.js, the reference implementation. Tests compare the
// results of package graphql with the results of GraphQL.js, because many upstreams use GraphQL.js.
//
// The package is for tests only, and is not a server: the tests of package gateway have their own GraphQL server. Read
// this file first, then oracle.mjs, which has the schema.
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

// Oracle is a Node process with GraphQL.js. It is safe for concurrent use.
type Oracle struct {
	t   testing.TB
	mu  sync.Mutex
	in  io.Writer
	out *bufio.Reader
}

// Start starts an Oracle that ends with the test. root is the path from the test's package to the repository's
// root. Start skips the test if npm's packages are not installed, except in continuous integration.
func Start(t testing.TB, root string) *Oracle {
	t.Helper()
	packageJSON, err := filepath.Abs(filepath.Join(root, "local", "dev", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(packageJSON), "node_modules", "graphql")); errors.Is(err,
		fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("GraphQL.js is not there: npm ci --prefix local/dev installs it")
	} else if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.CopyFS(folder, scripts); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(folder, "oracle.mjs")
	cmd := exec.CommandContext(t.Context(), "node", file, packageJSON) //nolint:gosec // the test's own files
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

// Parsed describes a parsed document.
type Parsed struct {
	// Fields has the names of all fields and fragment spreads, in the order of the document. The name of a spread begins
	// with "...".
	Fields []string
	// Operations is the number of operations.
	Operations int
}

// Parse parses a document. syntaxError is the message of GraphQL.js if the document is invalid, "" otherwise.
func (o *Oracle) Parse(document string) (parsed Parsed, syntaxError string) {
	o.t.Helper()
	return parsed, o.call("parse", document, &parsed)
}

// Measured is the cost of a document, computed by measure.mjs according to docs/graphql.md.
type Measured struct {
	// Invalid is the reason why the document cannot be executed, "" if it can.
	Invalid     string
	Introspects bool
	Operations  []MeasuredOperation
}

// MeasuredOperation is one operation of a document.
type MeasuredOperation struct {
	Name, Type        string
	Depth, Complexity int
}

// Measure computes a document's cost with measure.mjs. Fields named in ignored do not add to the depth. syntaxError is
// the message of GraphQL.js if it cannot parse the document, "" otherwise.
func (o *Oracle) Measure(document string, ignored []string) (measured Measured, syntaxError string) {
	o.t.Helper()
	return measured, o.call("measure", map[string]any{"document": document, "ignored": ignored}, &measured)
}

// Execute returns the response to a query against the schema of oracle.mjs, including errors.
func (o *Oracle) Execute(query, operationName string) json.RawMessage {
	o.t.Helper()
	var response json.RawMessage
	if failure := o.call("execute", map[string]any{"query": query, "operationName": operationName},
		&response); failure != "" {
		o.t.Fatal(failure)
	}
	return response
}

// ExecuteOn returns the response to a query against another schema, in the schema definition language.
func (o *Oracle) ExecuteOn(sdl, query string) json.RawMessage {
	o.t.Helper()
	var response json.RawMessage
	if failure := o.call("execute", map[string]any{"sdl": sdl, "query": query}, &response); failure != "" {
		o.t.Fatal(failure)
	}
	return response
}

// Built is a client schema that GraphQL.js has built.
type Built struct {
	SDL string
	// Errors are the mistakes in the schema.
	Errors []string
}

// Build builds a client schema from the data of an introspection response. failure is the message of GraphQL.js if that
// fails, "" otherwise.
func (o *Oracle) Build(data json.RawMessage) (built Built, failure string) {
	o.t.Helper()
	return built, o.call("build", data, &built)
}

func (o *Oracle) call(method string, argument, result any) (failure string) {
	o.t.Helper()
	line, err := json.Marshal(map[string]any{method: argument})
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
		Result json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &out); err != nil {
		o.t.Fatal(err)
	}
	if out.Error == "" {
		if err := json.Unmarshal(out.Result, result); err != nil {
			o.t.Fatal(err)
		}
	}
	return out.Error
}
