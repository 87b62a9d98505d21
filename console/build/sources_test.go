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

// sources are the console's own, by their path below src.
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
		t.Fatalf("there are %d sources only", len(out))
	}
	return out
}

var (
	commandLine = regexp.MustCompile(`(?:cli: |cli=|line=\{?)"(gatewright [^"]*)"`)
	flagWord    = regexp.MustCompile(`--[a-z-]+`)
)

// TestCommandLinesExist compares every command that a page shows with the client's: its words, how many names it takes, its flags.
func TestCommandLinesExist(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "client", "commands", "testdata", "commands.txt"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for name, source := range sources(t) {
		for _, found := range commandLine.FindAllStringSubmatch(source, -1) {
			seen++
			if problem := unknownCommand(found[1], string(raw)); problem != "" {
				t.Errorf("%s shows %q: %s", name, found[1], problem)
			}
		}
	}
	if seen < 3 {
		t.Errorf("only %d command lines were found", seen)
	}
	for _, line := range []string{"gatewright bucket lists", "gatewright bucket get", "gatewright bucket get :bucket --force", "gatewright bucket list :bucket"} {
		if unknownCommand(line, string(raw)) == "" {
			t.Errorf("%q passes, and there is no such command", line)
		}
	}
}

// unknownCommand says what of a line the client does not take.
func unknownCommand(line, commands string) string {
	words := strings.Fields(line)
	for command := range strings.Lines(commands) {
		known := strings.Fields(command)
		verb := 0
		for verb < len(known) && verb < len(words) && known[verb] == words[verb] && !strings.HasPrefix(known[verb], "--") {
			verb++
		}
		rest := known[verb:]
		if len(rest) > 0 && regexp.MustCompile(`^[a-z]`).MatchString(rest[0]) || verb < len(words) && !strings.HasPrefix(words[verb], ":") && !strings.HasPrefix(words[verb], "--") {
			continue // another command
		}
		takes, given := 0, 0
		for _, word := range rest {
			if strings.HasPrefix(word, "--") {
				break
			}
			takes++
		}
		for _, word := range words[verb:] {
			if strings.HasPrefix(word, "--") {
				break
			}
			given++
		}
		optional := takes == 1 && strings.HasPrefix(rest[0], "[")
		if takes != given && (!optional || given != 0) {
			continue
		}
		for _, flag := range flagWord.FindAllString(line, -1) {
			if !slices.Contains(rest, flag) {
				return "it takes no " + flag
			}
		}
		return ""
	}
	return "the client has no such command, or it takes other names"
}

// TestOperationsAreReached compares the operations of the API with those that pages call: each is called by one, or has a reason not to.
func TestOperationsAreReached(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "functions", "*", "testdata", "operations.txt"))
	if err != nil || len(files) == 0 {
		t.Fatalf("operations are declared nowhere: %v", err)
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
		for _, match := range named.FindAllStringSubmatch(source, -1) {
			found := match[1]
			if !operations[found] {
				t.Errorf("%s calls %s, which is no operation", name, found)
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
			t.Errorf("testdata/unreached.txt: %q is no operation with a reason", strings.TrimSpace(line))
		case reached[id] != "":
			t.Errorf("testdata/unreached.txt says that no page calls %s, and %s does", id, reached[id])
		}
		excused[id] = true
	}
	for id := range operations {
		if reached[id] == "" && !excused[id] {
			t.Errorf("no page calls %s: call it, or give a reason in testdata/unreached.txt", id)
		}
	}
}

// TestSourcesWriteNoMarkup: what the API answers becomes text, never markup or a script, by which names could do what they like.
func TestSourcesWriteNoMarkup(t *testing.T) {
	forbidden := regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|dangerouslySetInnerHTML|document\.write|\beval\(|new Function|srcdoc|sessionStorage|indexedDB|document\.cookie|caches\.|serviceWorker`)
	for name, source := range sources(t) {
		if found := forbidden.FindString(source); found != "" {
			t.Errorf("%s has %s", name, found)
		}
		if strings.Contains(source, "localStorage") && name != "ui/theme.ts" {
			t.Errorf("%s keeps something in the browser: the look alone is kept", name)
		}
	}
}
