package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/console"
)

// needModules skips a test that bundles where npm has installed nothing, but in continuous integration.
func needModules(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("..", "node_modules", "preact")); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("the packages of the console are not installed: make console installs them")
		}
		t.Fatal(err)
	}
}

// TestTheSameSourcesMakeTheSameFiles: a name has a digest in it, and browsers keep what is behind it for good.
func TestTheSameSourcesMakeTheSameFiles(t *testing.T) {
	needModules(t)
	// As a build does first: this test is run before any too, and after the description has changed.
	if err := writeOperations("..", filepath.Join("..", "..", "functions", "platform", "openapi.json")); err != nil {
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
	made, err := archive(once)
	if err != nil {
		t.Fatal(err)
	}
	if err := compare(filepath.Join("..", bundleName), made); err != nil {
		t.Error(err)
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

// TestArchiveDependsOnItsFilesAlone: not on their order, the time or the folder.
func TestArchiveDependsOnItsFilesAlone(t *testing.T) {
	files := []file{{"main-1.js", []byte("one")}, {"index.html.br", []byte("1")}, {"index.html", []byte("main-1.js")}}
	once, err := archive(files)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	twice, err := archive(files)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(once, twice) {
		t.Error("archive() depends on the order of files")
	}
	const want = "8bc4187b66675392e5cd91872252b3b6ba16ac09b733ba8ea7b1cdccbf11f3c0"
	if got := fmt.Sprintf("%x", sha256.Sum256(once)); got != want {
		t.Errorf("archive() SHA-256 = %s, want %s: every bundle that is committed differs from a new one", got, want)
	}
	site, err := console.Open(once)
	if err != nil {
		t.Fatalf("Open(archive()): %v", err)
	}
	if got, want := site.Names(), []string{"index.html", "main-1.js"}; !slices.Equal(got, want) {
		t.Errorf("Open(archive()).Names() = %q, want %q", got, want)
	}
}

// TestABundleOfOtherSourcesIsRefused compares archives with the one that the sources build.
func TestABundleOfOtherSourcesIsRefused(t *testing.T) {
	of := func(names ...string) []byte {
		files := []file{{"index.html", []byte("a page")}}
		for _, name := range names {
			files = append(files, file{name, []byte("a file")})
		}
		made, err := archive(files)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	now := of("main-2.js", "icon-1.svg")
	other, err := archive([]file{{"index.html", []byte("another page")}, {"main-2.js", []byte("a file")}, {"icon-1.svg", []byte("a file")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		committed []byte
		want      string
	}{
		{"the same", now, ""},
		{"an older one", of("main-1.js", "icon-1.svg"), "it has main-1.js, and the sources build main-2.js"},
		{"a file more", of("icon-1.svg", "main-2.js", "main-3.js"), "it has main-3.js, and the sources build no other file"},
		{"many files", of("a-1.js", "b-1.js", "c-1.js", "d-1.js", "e-1.js", "icon-1.svg"), "it has a-1.js, b-1.js, c-1.js and 2 more files, and the sources build main-2.js"},
		{"another page", other, "the same names with other contents"},
		{"damaged", now[:len(now)/2], "it is damaged"},
		{"missing", nil, "is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), bundleName)
			if tt.committed != nil {
				if err := os.WriteFile(name, tt.committed, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := compare(name, now)
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("compare() = %v, want no error", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("compare() = %v, want an error with %q", err, tt.want)
			case tt.want != "" && !strings.Contains(err.Error(), "run make console"):
				t.Errorf("compare() = %v, want an error that says to run make console", err)
			}
		})
	}
}

// TestAKilledBuildLeavesTheLastBundle: a file that cannot be written whole stays as it was.
func TestAKilledBuildLeavesTheLastBundle(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, bundleName)
	if err := replace(name, []byte("the last one")); err != nil {
		t.Fatal(err)
	}
	last, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = last.Close() }()
	if err := replace(name, []byte("a new one")); err != nil {
		t.Fatal(err)
	}
	// Who has opened the last one reads all of it: a build never writes into it.
	if got, err := io.ReadAll(last); err != nil || string(got) != "the last one" {
		t.Errorf("the opened file = %q, %v, want the last one", got, err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "a new one" {
		t.Errorf("replace() leaves %q, %v, want the new one", got, err)
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(there) != 1 {
		t.Errorf("replace() leaves %d files, want 1", len(there))
	}
}

// TestOperationsOfPagesAreGenerated: an operation that no source names changes nothing but the scopes.
func TestOperationsOfPagesAreGenerated(t *testing.T) {
	folder := t.TempDir()
	document := filepath.Join(folder, "openapi.json")
	description := func(more string) string {
		return `{"paths": {"/v1/cars": {"get": {"operationId": "CarsService_list", "x-required-scope": "cars:read"}` + more + `}, "/health": {"get": {"operationId": "Health_read"}}}}`
	}
	const called = `// Generated by console/build from the description of the API: method, path, required scope.
export const operations = {
  CarsService_list: ["GET", "/v1/cars", "cars:read"],
} as const;

// All scopes that operations require.
export const scopes: readonly string[] = [
  "cars:read",
`
	for _, tt := range []struct{ name, more, want string }{
		{"each operation is called", "", called + "];\n"},
		{"one is not called", `, "post": {"operationId": "CarsService_create", "x-required-scope": "cars:read"}`, called + "];\n"},
		{"one has another scope", `, "post": {"operationId": "CarsService_create", "x-required-scope": "cars:write"}`, called + "  \"cars:write\",\n];\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, text := range map[string]string{"src/pages/cars.tsx": `useRows("CarsService_list", "Health_read")`, "openapi.json": description(tt.more)} {
				put(t, filepath.Join(folder, name), text)
			}
			if err := writeOperations(folder, document); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(folder, "generated", "operations.ts"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// put writes a file and makes its folder.
func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestABrokenBuildWritesNothing: a source that cannot be bundled leaves the last bundle, and the error has its place.
func TestABrokenBuildWritesNothing(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"src/main.tsx": "export const = 1;", "src/icon.svg": "<svg/>", "src/index.html": "", bundleName: "the last one"} {
		put(t, filepath.Join(folder, name), text)
	}
	err := run(folder, filepath.Join("..", "..", "functions", "platform", "openapi.json"), false, false)
	if err == nil || !strings.Contains(err.Error(), "src/main.tsx:1:13") {
		t.Errorf("run() = %v, want an error with the place src/main.tsx:1:13", err)
	}
	if kept, err := os.ReadFile(filepath.Join(folder, bundleName)); err != nil || string(kept) != "the last one" {
		t.Errorf("the last bundle = %q, %v, want no change", kept, err)
	}
}
