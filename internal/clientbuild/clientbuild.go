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
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

// Modules makes a folder what the client is built with, in place of what it had: the changed module, and the go.mod that has it in place of the
// one required, whose path it returns, for -modfile of the go command. root is the repository. A module in whose text an edit has no place, or
// more than one, is an error that says what to look at: it is another release than the one that the edits are for.
func Modules(ctx context.Context, root, dir string) (modfile string, err error) {
	root, err = filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("find the folder of modules: %w", err)
	}
	modfile, module := filepath.Join(dir, "go.mod"), filepath.Join(dir, "jsonschema")
	// The go.mod goes first and is made last: where it is, all is, wherever a process was killed.
	for _, old := range []string{modfile, module} {
		if err := os.RemoveAll(old); err != nil {
			return "", fmt.Errorf("remove what was built with before: %w", err)
		}
	}
	source, err := run(ctx, root, "list", "-m", "-f={{.Dir}}", patched)
	if err != nil {
		return "", err
	}
	if source == "" {
		if _, err := run(ctx, root, "mod", "download", patched); err != nil {
			return "", err
		}
		if source, err = run(ctx, root, "list", "-m", "-f={{.Dir}}", patched); err != nil {
			return "", err
		}
	}
	if err := os.CopyFS(module, os.DirFS(source)); err != nil {
		return "", fmt.Errorf("copy %s: %w", patched, err)
	}
	if err := apply(module, edits); err != nil {
		return "", err
	}
	return modfile, replaced(ctx, root, dir, module)
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

// replaced writes the go.mod, and go.sum beside it, of the repository with a module from a folder. Where that is within the repository it is told
// from there, since programs carry it.
func replaced(ctx context.Context, root, dir, module string) error {
	const unfinished = "unfinished.mod"
	for from, to := range map[string]string{"go.mod": unfinished, "go.sum": "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, from)) //nolint:gosec // the repository's
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, to), text, 0o600) //nolint:gosec // the folder that was asked for
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", from, err)
		}
	}
	if relative, err := filepath.Rel(root, module); err == nil && filepath.IsLocal(relative) {
		module = "./" + filepath.ToSlash(relative)
	}
	if _, err := run(ctx, root, "mod", "edit", "-replace="+patched+"="+module, filepath.Join(dir, unfinished)); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, unfinished), filepath.Join(dir, "go.mod")); err != nil {
		return fmt.Errorf("write the go.mod: %w", err)
	}
	return nil
}

// run runs the go command in a folder, with this machine's settings and not those of a system that is built for, and returns what it prints.
func run(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...) //nolint:gosec // words of this package
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=", "GOARCH=")
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
