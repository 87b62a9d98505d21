package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sources returns the console's own sources, by their path below src.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := os.DirFS(filepath.Join("..", "src"))
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".ts", ".tsx"}, filepath.Ext(name)) {
			return err
		}
		raw, err := fs.ReadFile(root, name)
		out[name] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("%d sources, want at least 20", len(out))
	}
	return out
}

var (
	// commandLine matches a command of the client that a page shows.
	commandLine = regexp.MustCompile(`(?:cli: |cli=|line=\{?)"(gatewright [^"]*)"`)
	flagPattern = regexp.MustCompile(`--[a-z-]+`)
)

// TestCommandLinesExist compares every command that a page shows with the client's commands: the words, the number of
// names, and the flags.
func TestCommandLinesExist(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "client", "commands", "testdata", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for name, source := range sources(t) {
		for _, found := range commandLine.FindAllStringSubmatch(source, -1) {
			checked++
			if problem := unknownCommand(found[1], string(raw)); problem != "" {
				t.Errorf("%s shows %q, want a command that exists: %s", name, found[1], problem)
			}
		}
	}
	if checked < 3 {
		t.Errorf("%d command lines found, want at least 3", checked)
	}
	for _, line := range []string{
		"gatewright bucket lists", "gatewright bucket get",
		"gatewright bucket get :bucket --force", "gatewright bucket list :bucket",
	} {
		if unknownCommand(line, string(raw)) == "" {
			t.Errorf("unknownCommand(%q) = \"\", want a problem", line)
		}
	}
}

// unknownCommand returns a description of what the client does not support in a command line, or "" if it supports all
// of it. commands has a line for each command, with its parameters and flags.
func unknownCommand(line, commands string) string {
	args := strings.Fields(line)
	for command := range strings.Lines(commands) {
		commandArgs := strings.Fields(command)
		n := 0
		for n < len(commandArgs) && n < len(args) && commandArgs[n] == args[n] && !strings.HasPrefix(commandArgs[n], "--") {
			n++
		}
		parameters := commandArgs[n:]
		if len(parameters) > 0 && regexp.MustCompile(`^[a-z]`).MatchString(parameters[0]) ||
			n < len(args) && !strings.HasPrefix(args[n], ":") && !strings.HasPrefix(args[n], "--") {
			continue // another command
		}
		wantArgs, gotArgs := 0, 0
		for _, arg := range parameters {
			if strings.HasPrefix(arg, "--") {
				break
			}
			wantArgs++
		}
		for _, arg := range args[n:] {
			if strings.HasPrefix(arg, "--") {
				break
			}
			gotArgs++
		}
		optional := wantArgs == 1 && strings.HasPrefix(parameters[0], "[")
		if wantArgs != gotArgs && (!optional || gotArgs != 0) {
			continue
		}
		for _, flag := range flagPattern.FindAllString(line, -1) {
			if !slices.Contains(parameters, flag) {
				return "it takes no " + flag
			}
		}
		return ""
	}
	return "the client has no such command, or it takes other names"
}

// TestOperationsAreReached checks that a page calls each operation of the API. testdata/unreached.txt lists the
// exceptions with their reasons.
func TestOperationsAreReached(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "functions", "*", "testdata", "operations.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files with operations (%v), want at least one", len(files), err)
	}
	operations := map[string]bool{}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var id string
		for line := range strings.Lines(string(raw)) {
			if !strings.HasPrefix(line, " ") {
				id = strings.TrimSpace(line)
			} else if _, path, ok := strings.Cut(line, " /v1/"); ok && path != "" {
				operations[id] = true
			}
		}
	}
	reached := map[string]string{}
	for name, source := range sources(t) {
		for _, match := range operationID.FindAllStringSubmatch(source, -1) {
			found := match[1]
			if !operations[found] {
				t.Errorf("%s calls %s, want an operation that exists", name, found)
			}
			reached[found] = name
		}
		if strings.Contains(source, `"v1/session"`) {
			for id := range operations {
				if strings.HasPrefix(id, "SessionService_") {
					reached[id] = name
				}
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join("testdata", "unreached.txt"))
	if err != nil {
		t.Fatal(err)
	}
	excused := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		id, reason, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case !operations[id] || reason == "":
			t.Errorf("testdata/unreached.txt: %q, want an operation with a reason", strings.TrimSpace(line))
		case reached[id] != "":
			t.Errorf("testdata/unreached.txt has %s, which %s calls, want only operations that no page calls", id, reached[id])
		}
		excused[id] = true
	}
	for id := range operations {
		if reached[id] == "" && !excused[id] {
			t.Errorf("no page calls %s, want a call, or a line in testdata/unreached.txt with a reason", id)
		}
	}
}

// TestSourcesWriteNoMarkup checks that sources show responses of the API as text, never as markup. Otherwise the name
// of a resource could contain a script that the browser runs. It also checks that only ui/theme.ts stores data in the
// browser.
func TestSourcesWriteNoMarkup(t *testing.T) {
	forbidden := regexp.MustCompile(
		`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc|` +
			`sessionStorage|indexedDB|document\.cookie|caches\.|serviceWorker`)
	for name, source := range sources(t) {
		if found := forbidden.FindString(source); found != "" {
			t.Errorf("%s has %s, want no markup from text and no other storage", name, found)
		}
		if strings.Contains(source, "localStorage") && name != "ui/theme.ts" {
			t.Errorf("%s uses localStorage, want it only in ui/theme.ts", name)
		}
	}
}
