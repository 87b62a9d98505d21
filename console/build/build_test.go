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

// needModules skips a test that needs npm packages if none are installed. In continuous integration the test fails
// instead.
func needModules(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("..", "node_modules", "preact")); err != nil {
		if os.Getenv("CI") == "" {
			t.Skip("the packages of the console are not installed: make console installs them")
		}
		t.Fatal(err)
	}
}

// TestBundleIsReproducible checks that the same sources produce the same files. The names contain a digest, because
// browsers cache the files forever.
func TestBundleIsReproducible(t *testing.T) {
	needModules(t)
	// A build first writes generated/operations.ts. The test also writes the file, because the test can run before a
	// build, or after a change of the API description.
	if err := writeOperations("..", filepath.Join("..", "..", "functions", "platform", "openapi.json")); err != nil {
		t.Fatal(err)
	}
	first, sizes, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := bundle("..")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(first, second, func(a, b file) bool { return a.name == b.name && bytes.Equal(a.body, b.body) }) {
		t.Error("two builds of the same sources differ, want the same files")
	}
	if err := sizes.check(); err != nil {
		t.Errorf("check() of the bundle's sizes: error = %v, want none", err)
	}
	newArchive, err := archive(first)
	if err != nil {
		t.Fatal(err)
	}
	if err := compare(filepath.Join("..", bundleName), newArchive); err != nil {
		t.Errorf("compare() of the committed bundle: error = %v, want none", err)
	}
	files := map[string][]byte{}
	for _, f := range first {
		files[f.name] = f.body
	}
	for name, body := range files {
		original, ok := strings.CutSuffix(name, ".br")
		if !ok {
			continue
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(brotli.NewReader(bytes.NewReader(body))); err != nil ||
			!bytes.Equal(out.Bytes(), files[original]) {
			t.Errorf("decompressed %s differs from %s (%v), want the same bytes", name, original, err)
		}
	}
	page := string(files["index.html"])
	for _, part := range []string{
		`src="{{assets}}/main-`, `href="{{assets}}/main-`, `href="{{assets}}/icon-`,
		`rel="license" href="{{assets}}/licenses-`,
	} {
		if !strings.Contains(page, part) {
			t.Errorf("index.html =\n%s\nwant %s", page, part)
		}
	}
	for name, body := range files {
		if !strings.HasPrefix(name, "licenses-") || !strings.HasSuffix(name, ".txt") {
			continue
		}
		for _, part := range []string{"preact 11.2.0 (MIT)", "uplot ", "@codemirror/view ", "Permission is hereby granted"} {
			if !bytes.Contains(body, []byte(part)) {
				t.Errorf("%s =\n%s\nwant %s", name, body, part)
			}
		}
		if bytes.Contains(body, []byte("playwright")) {
			t.Errorf("%s has the license of playwright, want only packages of the bundle", name)
		}
	}
}

// TestTooLargeBundleIsRefused checks that a build fails if it exceeds only one of the limits.
func TestTooLargeBundleIsRefused(t *testing.T) {
	for name, s := range map[string]sizes{
		"first load": {firstLoad: maxFirstLoadBytes + 1, total: maxTotalBytes},
		"all":        {firstLoad: maxFirstLoadBytes, total: maxTotalBytes + 1},
	} {
		if s.check() == nil {
			t.Errorf("%s: check() of %d and %d bytes succeeds, want an error", name, s.firstLoad, s.total)
		}
	}
	if err := (sizes{firstLoad: maxFirstLoadBytes, total: maxTotalBytes}).check(); err != nil {
		t.Errorf("check() of sizes at both limits: error = %v, want none", err)
	}
}

// TestArchiveIsReproducible checks that the bytes of an archive depend on its files, and not on their order, the time
// or the folder.
func TestArchiveIsReproducible(t *testing.T) {
	files := []file{{"main-1.js", []byte("one")}, {"index.html.br", []byte("1")}, {"index.html", []byte("main-1.js")}}
	first, err := archive(files)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(files)
	second, err := archive(files)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Error("archive() depends on the order of files, want the same bytes")
	}
	const want = "8bc4187b66675392e5cd91872252b3b6ba16ac09b733ba8ea7b1cdccbf11f3c0"
	if got := fmt.Sprintf("%x", sha256.Sum256(first)); got != want {
		t.Errorf("archive() SHA-256 = %s, want %s: the format has changed, so committed bundles are outdated", got, want)
	}
	site, err := console.Open(first)
	if err != nil {
		t.Fatalf("Open(archive()): %v", err)
	}
	if got, want := site.Names(), []string{"index.html", "main-1.js"}; !slices.Equal(got, want) {
		t.Errorf("Open(archive()).Names() = %q, want %q", got, want)
	}
}

// TestOutdatedBundleIsRefused checks that compare returns an error for an archive that differs from the archive that
// the sources build.
func TestOutdatedBundleIsRefused(t *testing.T) {
	newArchive := func(names ...string) []byte {
		files := []file{{"index.html", []byte("a page")}}
		for _, name := range names {
			files = append(files, file{name, []byte("a file")})
		}
		built, err := archive(files)
		if err != nil {
			t.Fatal(err)
		}
		return built
	}
	current := newArchive("main-2.js", "icon-1.svg")
	other, err := archive([]file{
		{"index.html", []byte("another page")},
		{"main-2.js", []byte("a file")},
		{"icon-1.svg", []byte("a file")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		committed []byte
		want      string
	}{
		{"an equal bundle", current, ""},
		{"an older bundle", newArchive("main-1.js", "icon-1.svg"), "it has main-1.js, and the sources build main-2.js"},
		{
			"an additional file", newArchive("icon-1.svg", "main-2.js", "main-3.js"),
			"it has main-3.js, and the sources build no other file",
		},
		{
			"many files", newArchive("a-1.js", "b-1.js", "c-1.js", "d-1.js", "e-1.js", "icon-1.svg"),
			"it has a-1.js, b-1.js, c-1.js and 2 more files, and the sources build main-2.js",
		},
		{"a different page", other, "the same names with other contents"},
		{"damaged", current[:len(current)/2], "it is damaged"},
		{"missing", nil, "is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), bundleName)
			if tt.committed != nil {
				if err := os.WriteFile(name, tt.committed, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			err := compare(name, current)
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

// TestReplaceIsAtomic checks that replace does not write into the existing file, and leaves no temporary file.
func TestReplaceIsAtomic(t *testing.T) {
	folder := t.TempDir()
	name := filepath.Join(folder, bundleName)
	if err := replace(name, []byte("the previous one")); err != nil {
		t.Fatal(err)
	}
	previous, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = previous.Close() }()
	if err := replace(name, []byte("a new one")); err != nil {
		t.Fatal(err)
	}
	// A process that has opened the previous archive can still read all of it, because a build never writes into an
	// existing archive.
	if got, err := io.ReadAll(previous); err != nil || string(got) != "the previous one" {
		t.Errorf("the opened file = %q, %v, want the previous one", got, err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "a new one" {
		t.Errorf("replace() leaves %q, %v, want the new one", got, err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("replace() leaves %d files, want 1", len(entries))
	}
}

// TestOperationsAreGenerated checks that the generated file has the operations under /v1/ that a source names. The
// other operations under /v1/ only add their scopes.
func TestOperationsAreGenerated(t *testing.T) {
	folder := t.TempDir()
	document := filepath.Join(folder, "openapi.json")
	description := func(extra string) string {
		return `{"paths": {"/v1/cars": {"get": {"operationId": "CarsService_list", "x-required-scope": "cars:read"}` +
			extra + `}, "/health": {"get": {"operationId": "Health_read"}}}}`
	}
	const wantPrefix = `// Generated by console/build from the description of the API: method, path, required scope.
export const operations = {
  CarsService_list: ["GET", "/v1/cars", "cars:read"],
} as const;

// All scopes that operations require.
export const scopes: readonly string[] = [
  "cars:read",
`
	for _, tt := range []struct{ name, extra, want string }{
		{"every operation called", "", wantPrefix + "];\n"},
		{
			"one operation without a call", `, "post": {"operationId": "CarsService_create", "x-required-scope": "cars:read"}`,
			wantPrefix + "];\n",
		},
		{
			"one operation with another scope",
			`, "post": {"operationId": "CarsService_create", "x-required-scope": "cars:write"}`,
			wantPrefix + "  \"cars:write\",\n];\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, text := range map[string]string{
				"src/pages/cars.tsx": `useRows("CarsService_list", "Health_read")`,
				"openapi.json":       description(tt.extra),
			} {
				writeTestFile(t, filepath.Join(folder, name), text)
			}
			if err := writeOperations(folder, document); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(filepath.Join(folder, "generated", "operations.ts"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("generated/operations.ts differs (-want +got):\n%s", diff)
			}
		})
	}
}

// writeTestFile writes a file and creates its folder.
func writeTestFile(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFailedBuildWritesNothing checks that the previous bundle stays if a source cannot be bundled, and that the error
// names the position in the source.
func TestFailedBuildWritesNothing(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"src/main.tsx": "export const = 1;", "src/icon.svg": "<svg/>",
		"src/index.html": "", bundleName: "the previous one",
	} {
		writeTestFile(t, filepath.Join(folder, name), text)
	}
	err := run(t.Context(), folder, filepath.Join("..", "..", "functions", "platform", "openapi.json"), false, false)
	if err == nil || !strings.Contains(err.Error(), "src/main.tsx:1:13") {
		t.Errorf("run() = %v, want an error with the place src/main.tsx:1:13", err)
	}
	if content, err := os.ReadFile(filepath.Join(folder, bundleName)); err != nil ||
		string(content) != "the previous one" {
		t.Errorf("the previous bundle = %q, %v, want no change", content, err)
	}
}
