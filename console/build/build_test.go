package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

// needModules skips a test that bundles where npm has installed nothing, but in continuous integration.
func needModules(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("..", "node_modules", "preact")); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("make console installs what the console is made of")
		}
		t.Fatal(err)
	}
}

// TestTheSameSourcesMakeTheSameFiles: a name has a digest in it, and browsers keep what is behind it for good.
func TestTheSameSourcesMakeTheSameFiles(t *testing.T) {
	needModules(t)
	// As a build does first: this test is run before any too, and after the description has changed.
	if err := writeOperations(filepath.Join("..", "generated"), filepath.Join("..", "..", "functions", "platform", "openapi.json")); err != nil {
		t.Fatal(err)
	}
	once, sizes, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	twice, _, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(once, twice, func(a, b file) bool { return a.name == b.name && bytes.Equal(a.body, b.body) }) {
		t.Error("two builds of the same sources differ")
	}
	if err := sizes.check(); err != nil {
		t.Error(err)
	}
	if last := once[len(once)-1].name; last != "index.html" {
		t.Errorf("%s is written last, and not the page that names the others", last)
	}
	files := map[string][]byte{}
	for _, f := range once {
		files[f.name] = f.body
	}
	for name, body := range files {
		whole, ok := strings.CutSuffix(name, ".br")
		if !ok {
			continue
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(brotli.NewReader(bytes.NewReader(body))); err != nil || !bytes.Equal(out.Bytes(), files[whole]) {
			t.Errorf("%s is not %s compressed: %v", name, whole, err)
		}
	}
	page := string(files["index.html"])
	for _, part := range []string{`src="{{assets}}/main-`, `href="{{assets}}/main-`, `href="{{assets}}/icon-`, `rel="license" href="{{assets}}/licenses-`} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %s:\n%s", part, page)
		}
	}
	for name, body := range files {
		if !strings.HasPrefix(name, "licenses-") || !strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, part := range []string{"preact 11.2.0 (MIT)", "uplot ", "@codemirror/view ", "Permission is hereby granted"} {
			if !bytes.Contains(body, []byte(part)) {
				t.Errorf("%s lacks %s:\n%s", name, part, body)
			}
		}
		if bytes.Contains(body, []byte("playwright")) {
			t.Errorf("%s has what is not in the bundle", name)
		}
	}
}

// TestTooMuchToLoadIsRefused: each bound fails a build by itself.
func TestTooMuchToLoadIsRefused(t *testing.T) {
	for name, s := range map[string]sizes{"first load": {first: firstBytes + 1, all: allBytes}, "all": {first: firstBytes, all: allBytes + 1}} {
		if s.check() == nil {
			t.Errorf("%s: %d and %d bytes pass", name, s.first, s.all)
		}
	}
	if err := (sizes{first: firstBytes, all: allBytes}).check(); err != nil {
		t.Error(err)
	}
}

// TestAKilledBuildLeavesAWholeConsole stops a build before each of its files, by one that can't be written: the page names no file that is not there.
func TestAKilledBuildLeavesAWholeConsole(t *testing.T) {
	before := []file{{"main-1.js", []byte("one")}, {"index.html.br", []byte("1")}, {"index.html", []byte("main-1.js")}}
	after := []file{{"main-2.js", []byte("two")}, {"index.html.br", []byte("2")}, {"index.html", []byte("main-2.js")}}
	for stop := range after {
		folder := t.TempDir()
		if err := write(folder, before); err != nil {
			t.Fatal(err)
		}
		if err := write(folder, slices.Insert(slices.Clone(after), stop, file{filepath.Join("no", "such", "folder"), nil})); err == nil {
			t.Fatal("a build that can't write a file succeeds")
		}
		page, err := os.ReadFile(filepath.Join(folder, "index.html"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(folder, string(page))); err != nil {
			t.Errorf("killed after %d files, the page names %s, which is not there", stop, page)
		}
		if err := write(folder, after); err != nil {
			t.Fatal(err)
		}
		there, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, entry := range there {
			names[entry.Name()] = true
		}
		if !maps.Equal(names, map[string]bool{"main-2.js": true, "index.html": true, "index.html.br": true}) {
			t.Errorf("the next build leaves %v", names)
		}
	}
}

// TestABrokenBuildWritesNothing: what can't be bundled leaves the last console as it was, and says where the fault is.
func TestABrokenBuildWritesNothing(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"src/main.tsx": "export const = 1;", "src/icon.svg": "<svg/>", "src/index.html": "", "dist/index.html": "the last one"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := run(folder, filepath.Join("..", "..", "functions", "platform", "openapi.json"), false)
	if err == nil || !strings.Contains(err.Error(), "src/main.tsx:1:13") {
		t.Errorf("a broken source says %v", err)
	}
	if kept, err := os.ReadFile(filepath.Join(folder, "dist", "index.html")); err != nil || string(kept) != "the last one" {
		t.Errorf("the last page is %q, %v", kept, err)
	}
}
