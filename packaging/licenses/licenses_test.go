package main

import (
	"archive/zip"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/console"
)

const tree = "../.."

// TestEveryServerModuleHasLicense checks that the license texts have every module that the server can link, the
// product, the console, and the Go standard library.
func TestEveryServerModuleHasLicense(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(tree, "internal", "repolint", "testdata", "server-modules.txt"))
	if err != nil {
		t.Fatal(err)
	}
	pkgs, err := goList(t.Context(), tree, system{"linux", "amd64"}, []string{"./cmd/gatewright-server"})
	if err != nil {
		t.Fatal(err)
	}
	c := collection{}
	if err := errors.Join(c.addProduct(tree), c.addConsole(tree), c.addPackages(pkgs)); err != nil {
		t.Fatal(err)
	}
	text := string(c.text())
	modules := strings.Fields(string(raw))
	if len(modules) < 50 {
		t.Fatalf("the list of modules has %d lines, want 50 or more", len(modules))
	}
	for _, module := range modules {
		if !strings.Contains(text, "\n"+module+" v") {
			t.Errorf("the license texts have no %s, want all modules", module)
		}
	}
	for _, want := range []string{
		"\nGatewright: LICENSE\n", "\nGatewright: NOTICE\n", "all-MiniLM-L6-v2",
		"\nGatewright console: licenses of its npm packages\n", "\nthe Go standard library: LICENSE\n",
		"\n" + modulePath + ": shared/thirdparty/jsonschema/LICENSE\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the license texts have no %q, want it", want)
		}
	}
}

// writeModule writes a module with one package and returns the package.
func writeModule(t *testing.T, name string, files map[string]string) listedPackage {
	t.Helper()
	root := t.TempDir()
	for file, text := range files {
		writeFile(t, filepath.Join(root, filepath.FromSlash(file)), text)
	}
	return listedPackage{
		ImportPath: name + "/p", Dir: filepath.Join(root, "p"),
		Module: &listedModule{Path: name, Version: "v1.0.0", Dir: root},
	}
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestModuleWithoutLicenseIsAnError checks which files are the license of a module. A module without one is an error.
func TestModuleWithoutLicenseIsAnError(t *testing.T) {
	for _, tt := range []struct {
		name, file, text string
		wantErr          bool
	}{
		{"a license", "LICENSE", "MIT", false},
		{"a license in Copying.txt", "Copying.txt", "MIT", false},
		{"a license in LICENSE-APACHE", "LICENSE-APACHE", "Apache", false},
		{"a notice alone", "NOTICE", "Copyright", true},
		{"an empty license", "LICENSE", " \n", true},
		{"code about licenses", "license.go", "package p", true},
		{"a license of a package alone", "p/LICENSE", "MIT", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := writeModule(t, "example.com/m", map[string]string{tt.file: tt.text, "p/p.go": "package p"})
			err := collection{}.addPackages([]listedPackage{p})
			if (err != nil) != tt.wantErr {
				t.Fatalf("addPackages(a module with %s) = %v, want an error: %t", tt.file, err, tt.wantErr)
			}
			if err != nil && !strings.Contains(err.Error(), "example.com/m v1.0.0") {
				t.Errorf("addPackages() = %v, want the module's name in it", err)
			}
		})
	}
}

// TestModuleWithoutSourceIsAnError checks the error for a module that was not downloaded.
func TestModuleWithoutSourceIsAnError(t *testing.T) {
	p := writeModule(t, "example.com/m", map[string]string{"LICENSE": "MIT", "p/p.go": "package p"})
	p.Module.Dir = ""
	if err := (collection{}).addPackages([]listedPackage{p}); err == nil ||
		!strings.Contains(err.Error(), "go mod download") {
		t.Errorf("addPackages(a module without a folder) = %v, want an error that says go mod download", err)
	}
}

// TestTextsAreUniqueAndSorted collects the same modules in two orders, and one of them twice. The text must be the
// same, and have equal licenses once.
func TestTextsAreUniqueAndSorted(t *testing.T) {
	a := writeModule(t, "example.com/a", map[string]string{
		"LICENSE": "MIT\n", "NOTICE": "Copyright A", "p/LICENSE": "BSD",
		"p/p.go": "package p",
	})
	b := writeModule(t, "example.com/b", map[string]string{"LICENSE.txt": "\nMIT\r\n", "p/p.go": "package p"})
	first, second := collection{}, collection{}
	if err := errors.Join(first.addProduct(tree), first.addPackages([]listedPackage{a, b}),
		second.addPackages([]listedPackage{b, a, b}), second.addProduct(tree)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.text(), second.text()) {
		t.Errorf("text() in another order =\n%s\nwant\n%s", second.text(), first.text())
	}
	separator := strings.Repeat("=", 80)
	want := "\n" + separator + "\n\nexample.com/a v1.0.0: LICENSE\nexample.com/b v1.0.0: LICENSE.txt\n\nMIT\n" +
		"\n" + separator + "\n\nexample.com/a v1.0.0: NOTICE\n\nCopyright A\n" +
		"\n" + separator + "\n\nexample.com/a v1.0.0: p/LICENSE\n\nBSD\n"
	if got := string(first.text()); !strings.HasSuffix(got, want) {
		t.Errorf("text() ends with\n%s\nwant\n%s", got[max(0, len(got)-len(want)):], want)
	}
	if got := string(first.text()); strings.Index(got, "Gatewright: LICENSE") > strings.Index(got, "example.com/a") {
		t.Errorf("text() = %s, want the license of the product first", got)
	}
}

// zipBundle returns a bundle of the console with one file.
func zipBundle(t *testing.T, name, text string) string {
	t.Helper()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	w, err := z.Create(name)
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	return archive.String()
}

// TestConsoleHasItsLicenses checks that the license texts have the file of licenses in the console's bundle, and the
// errors for a bundle without one.
func TestConsoleHasItsLicenses(t *testing.T) {
	for _, tt := range []struct{ name, bundle, wantError string }{
		{"licenses", zipBundle(t, "licenses-0a1b2c.txt", "preact: MIT"), ""},
		{"no licenses", zipBundle(t, "index.html", "<html>"), "no file of licenses"},
		{"a damaged bundle", "PK", "make console"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkout := t.TempDir()
			writeFile(t, filepath.Join(checkout, "console", console.FileName), tt.bundle)
			c := collection{}
			err := c.addConsole(checkout)
			if tt.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantError) {
					t.Errorf("addConsole() = %v, want an error with %q", err, tt.wantError)
				}
				return
			}
			if err != nil || len(c["preact: MIT"]) != 1 {
				t.Errorf("addConsole() = %v, and the texts are %v, want one of preact", err, c)
			}
		})
	}
}

// TestBinaryOfAnotherCheckoutIsAnError checks that a binary is refused if it has a module that the checkout does not
// link.
func TestBinaryOfAnotherCheckoutIsAnError(t *testing.T) {
	p := writeModule(t, "example.com/m", nil)
	for _, tt := range []struct {
		name    string
		dep     *debug.Module
		wantErr bool
	}{
		{"the same version", &debug.Module{Path: "example.com/m", Version: "v1.0.0"}, false},
		{"a module that it replaces", &debug.Module{
			Path: "example.com/x", Version: "v3.0.0",
			Replace: &debug.Module{Path: "example.com/m", Version: "v1.0.0"},
		}, false},
		{"another version", &debug.Module{Path: "example.com/m", Version: "v1.0.1"}, true},
		{"another module", &debug.Module{Path: "example.com/n", Version: "v1.0.0"}, true},
	} {
		if err := checkModules(&debug.BuildInfo{Path: "p", Deps: []*debug.Module{tt.dep}},
			[]listedPackage{p}); (err != nil) != tt.wantErr {
			t.Errorf("%s: checkModules() = %v, want an error: %t", tt.name, err, tt.wantErr)
		}
	}
}
