// Package clientbuild builds the client, cmd/gatewright, as `make cli` does: with one change of a library, which makes ready what it compiles of
// itself at its first use and not as each command starts (docs/decisions/0070-the-client-is-built-with-a-patched-library.md).
//
// The library is a copy of the module that go.mod requires, made as the client is built, whose text is changed by edits below; go.mod and what is
// committed know nothing of it, and `go build ./cmd/gatewright` makes a client that does the same and starts later. Read Modules first.
package clientbuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// Package is what is built, from the repository.
const Package = "./cmd/gatewright"

// patched is the module that is changed.
const patched = "github.com/santhosh-tekuri/jsonschema/v6"

// edit is a change of one of the module's files: old stands there once, and becomes text.
type edit struct{ file, old, text string }

// edits have the metaschemas of all drafts compiled with the first compiler that anybody makes, where the library does it as it is imported. Who
// compiles or validates anything has made a compiler before. The library's own goes without, which is the one that compiles them.
var edits = []edit{
	{"draft.go", "\nfunc init() {\n\tc := NewCompiler()\n", "\n// Changed by Gatewright: an init before.\nfunc compileMetaschemas() {\n\tc := newCompiler()\n"},
	{"compiler.go", "\nfunc NewCompiler() *Compiler {\n", "\n// Changed by Gatewright: it had no metaschemas to compile before.\nfunc NewCompiler() *Compiler {\n\tmetaschemas.Do(compileMetaschemas)\n\treturn newCompiler()\n}\n\n" +
		"var metaschemas sync.Once\n\nfunc newCompiler() *Compiler {\n"},
	{"compiler.go", "\nimport (\n", "\nimport (\n\t\"sync\"\n"},
}

// Modules makes a folder what the client is built with: the changed module, and the go.mod that has it in place of the one required, whose path
// it returns, for -modfile of the go command, with GOWORK=off. root is the repository. What is there is compared by its bytes and left where it is
// what would be made, so that another process may build with it meanwhile; two that make it wait for each other. A module in whose text an edit has
// no place, or more than one, is an error that says what to look at: it is another release than the one that the edits are for.
func Modules(ctx context.Context, root, dir string) (modfile string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the folder of modules: %w", err)
	}
	const private = 0o700
	if err := os.MkdirAll(dir, private); err != nil {
		return "", fmt.Errorf("make the folder of modules: %w", err)
	}
	held := flock.New(filepath.Join(dir, "lock"))
	// A disk that knows no locks has two processes meet, and each goes on.
	if _, err := held.TryLockContext(ctx, 20*time.Millisecond); err != nil && ctx.Err() != nil {
		return "", fmt.Errorf("wait for whoever makes the modules: %w", context.Cause(ctx))
	}
	defer func() { err = errors.Join(err, held.Close()) }()
	fresh := filepath.Join(dir, "new")
	if err := os.RemoveAll(fresh); err != nil {
		return "", fmt.Errorf("remove what a killed process left: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(fresh)) }()
	if err := made(ctx, root, dir, fresh); err != nil {
		return "", err
	}
	return filepath.Join(dir, modName), replace(dir, fresh)
}

// What a folder of modules has, in the order in which it is replaced: the go.mod goes first and comes last, so that where it is, all is, wherever a
// process was killed.
const (
	modName    = "go.mod"
	sumName    = "go.sum"
	moduleName = "jsonschema"
)

// made makes in fresh what is to be in dir.
func made(ctx context.Context, root, dir, fresh string) error {
	if _, err := run(ctx, root, "mod", "download", patched); err != nil { // nothing is asked of the network for what is there
		return err
	}
	source, err := run(ctx, root, "list", "-m", "-f={{.Dir}}", patched)
	if err != nil {
		return err
	}
	module := filepath.Join(fresh, moduleName)
	if err := os.CopyFS(module, os.DirFS(source)); err != nil {
		return fmt.Errorf("copy %s: %w", patched, err)
	}
	if err := apply(module, edits); err != nil {
		return err
	}
	return replaced(ctx, root, fresh, filepath.Join(dir, moduleName))
}

// replace puts what is fresh in the place of what the folder had, unless that is the same.
func replace(dir, fresh string) error {
	names := []string{modName, sumName, moduleName}
	if !slices.ContainsFunc(names, func(name string) bool { return !same(filepath.Join(dir, name), filepath.Join(fresh, name)) }) {
		return nil
	}
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("remove what was built with before: %w", err)
		}
	}
	for _, name := range slices.Backward(names) {
		if err := os.Rename(filepath.Join(fresh, name), filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("keep what is built with: %w", err)
		}
	}
	return nil
}

// same reports whether two files, or all files of two folders, are there and have the same bytes.
func same(a, b string) bool {
	read := func(path string) map[string]string {
		all := map[string]string{}
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(name) //nolint:gosec // of a folder of modules
			all[strings.TrimPrefix(name, path)] = string(text)
			return err
		})
		if err != nil {
			return nil
		}
		return all
	}
	one, other := read(a), read(b)
	return one != nil && other != nil && maps.Equal(one, other)
}

// apply makes edits in a folder.
func apply(module string, edits []edit) error {
	for _, e := range edits {
		path := filepath.Join(module, e.file)
		text, err := os.ReadFile(path) //nolint:gosec // a file of the module
		if err != nil {
			return fmt.Errorf("read what is changed: %w", err)
		}
		if n := strings.Count(string(text), e.old); n != 1 {
			return fmt.Errorf("%s has %d times, and once is needed, in %s: %q\nIt is another release than the one that edits of internal/clientbuild are for: make them fit, or, where it "+
				"waits by itself now, do without (docs/decisions/0070-the-client-is-built-with-a-patched-library.md)", patched, n, e.file, e.old)
		}
		if err := os.WriteFile(path, []byte(strings.Replace(string(text), e.old, e.text, 1)), 0o600); err != nil { //nolint:gosec // a file of the module
			return fmt.Errorf("write what is changed: %w", err)
		}
	}
	return nil
}

// replaced writes into dir the go.mod, and go.sum beside it, of the repository with a module from a folder. Where that is within the repository it
// is told from there, since programs carry it.
func replaced(ctx context.Context, root, dir, module string) error {
	for _, name := range []string{modName, sumName} {
		text, err := os.ReadFile(filepath.Join(root, name)) //nolint:gosec // the repository's
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600) //nolint:gosec // the folder that was asked for
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	if relative, err := filepath.Rel(root, module); err == nil && filepath.IsLocal(relative) {
		module = "./" + filepath.ToSlash(relative)
	}
	_, err := run(ctx, root, "mod", "edit", "-replace="+patched+"="+module, filepath.Join(dir, modName))
	return err
}

// run runs the go command in a folder, with this machine's settings and not those of a system that is built for or of a workspace, which knows
// no -modfile, and returns what it prints.
func run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // words of this package
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=", "GOWORK=off")
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, e.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Build builds the client into a file, stripped as it is released. root is the repository.
func Build(ctx context.Context, root, out string) error {
	dir, err := os.MkdirTemp("", "gatewright-modules-")
	if err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	modfile, err := Modules(ctx, root, dir)
	if err != nil {
		return err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("find where the client goes: %w", err)
	}
	_, err = run(ctx, root, "build", "-modfile="+modfile, "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, Package)
	return err
}
