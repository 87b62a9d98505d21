package main

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/packaging/containertest"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/testing/gobuild"
	"github.com/gatewright/gatewright/shared/thirdparty"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// shared returns a folder for files that several tests use. TestMain removes it.
var shared = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "gatewright-images-") })

func TestMain(m *testing.M) {
	containertest.Main(m, func() {
		if folder, err := shared(); err == nil {
			_ = os.RemoveAll(folder)
		}
	})
}

// product returns the folder with the images of the product and of the services for this machine's architecture. They
// are built from this checkout, once for all tests.
var product = sync.OnceValues(func() (string, error) {
	folder, err := shared()
	if err != nil {
		return "", err
	}
	packages := map[string]string{serverBinary: "./cmd/gatewright-server"}
	for _, s := range functions.Services() {
		packages[filepath.Join(s.Name, "container")] = "./functions/" + s.Name + "/container"
	}
	o := productOptions(repository, filepath.Join(folder, "binaries"), filepath.Join(folder, "product"))
	for binary, pkg := range packages {
		if err := gobuild.BuildFor(context.Background(), "linux", runtime.GOARCH, repository, pkg,
			filepath.Join(o.binaries, runtime.GOARCH, binary)); err != nil {
			return "", err
		}
	}
	return o.out, write(o, io.Discard)
})

// repository is the checkout's folder.
const repository = "../.."

// productOptions returns the options for images of binaries for this machine's architecture.
func productOptions(tree, binaries, out string) options {
	return options{
		tree: tree, binaries: binaries, out: out, version: "v1.2.3", revision: "0123", command: "serve",
		architectures: []string{runtime.GOARCH},
	}
}

// TestImagesAreReproducible compares the images of two checkouts byte for byte. The go command builds the programs of
// this checkout. Make builds the programs of the other checkout, whose folder has another name and whose files have
// other modes.
func TestImagesAreReproducible(t *testing.T) {
	checkoutImages, err := product()
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(t.TempDir(), "another", "and-deeper")
	checkout(t, tree)
	binaries := filepath.Join("dist", runtime.GOARCH)
	targets := []string{filepath.Join(binaries, serverBinary)}
	for _, s := range functions.Services() {
		targets = append(targets, filepath.Join(binaries, s.Name, "container"))
	}
	cmd := exec.Command("make", targets...)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v: %s", strings.Join(targets, " "), err, out)
	}
	o := productOptions(tree, filepath.Join(tree, "dist"), filepath.Join(tree, "dist", "images"))
	if err := write(o, io.Discard); err != nil {
		t.Fatal(err)
	}
	first, second := contents(t, checkoutImages), contents(t, o.out)
	if minFiles := 4 * len(programs(repository, "")); len(first) < minFiles {
		t.Fatalf("the images have %d files, want at least %d", len(first), minFiles)
	}
	for name, text := range first {
		if second[name] != text {
			t.Errorf("%s differs in the second build, want the same", name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(first)), slices.Sorted(maps.Keys(second))); diff != "" {
		t.Errorf("files of the second build differ, want those of the first (-first +second):\n%s", diff)
	}
}

// checkout copies into dir the files of this checkout that are, or will be, committed.
func checkout(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = repository
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		raw, err := os.ReadFile(filepath.Join(repository, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // deleted, but not committed yet
		}
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755),
				os.WriteFile(filepath.Join(dir, name), raw, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// contents returns the texts of the files below a folder, by their paths.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		texts[name] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// smallImageSet has the options for images, and the output of write.
type smallImageSet struct {
	options

	output string
}

// newSmallImages writes images that contain this test's binary for both architectures. It writes them once for all
// tests, because writing takes longer than the checks.
var newSmallImages = sync.OnceValues(func() (smallImageSet, error) {
	folder, err := shared()
	if err != nil {
		return smallImageSet{}, err
	}
	path := func(name string) string { return filepath.Join(folder, "small", name) }
	o := options{
		tree: path("tree"), binaries: path("binaries"), out: path("images"), version: "v1.2.3", revision: "0123",
		command:       "serve",
		architectures: []string{"amd64", "arm64"},
	}
	binary, err := os.ReadFile(os.Args[0])
	if err != nil {
		return smallImageSet{}, err
	}
	files := map[string][]byte{filepath.Join(o.tree, "shared", "management", "docsearch", "minilm",
		minilm.FileName): []byte("weights")}
	for _, architecture := range o.architectures {
		for _, p := range programs(o.tree, "") {
			files[filepath.Join(o.binaries, architecture, p.binary)] = append(slices.Clone(binary), architecture...)
		}
	}
	for file, body := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, body, 0o755)); err != nil {
			return smallImageSet{}, err
		}
	}
	var output strings.Builder
	err = write(o, &output)
	return smallImageSet{o, output.String()}, err
})

// smallImages returns the result of newSmallImages, and fails the test after an error.
func smallImages(t *testing.T) smallImageSet {
	t.Helper()
	set, err := newSmallImages()
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestImageDescription checks the configuration, the index and the tag of an image. With the index, an engine finds the
// image for its own architecture.
func TestImageDescription(t *testing.T) {
	o := smallImages(t)
	output := o.output
	for _, architecture := range o.architectures {
		i := containertest.LayoutImage(t, filepath.Join(o.out, "gatewright"), architecture)
		c, err := i.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"org.opencontainers.image.title":    "The whole product on one machine.",
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/gatewright/gatewright",
			"org.opencontainers.image.version":  "v1.2.3", "org.opencontainers.image.revision": "0123",
		}
		if diff := cmp.Diff(want, c.Config.Labels); diff != "" {
			t.Errorf("labels of the image for %s (-want +got):\n%s", architecture, diff)
		}
		if c.Architecture != architecture || c.Config.User != "65532:65532" ||
			!slices.Equal(c.Config.Entrypoint, []string{"/gatewright-server"}) ||
			!slices.Equal(c.Config.Cmd, []string{"serve"}) {
			t.Errorf("configuration = %+v, want %s with gatewright-server serve as 65532:65532", c, architecture)
		}
		if diff := cmp.Diff([]string{"GATEWRIGHT_DATA_DIR=/var/lib/gatewright", "TMPDIR=/var/lib/gatewright"},
			c.Config.Env); diff != "" {
			t.Errorf("environment of the image for %s (-want +got):\n%s", architecture, diff)
		}
		if _, ok := c.Config.Volumes["/var/lib/gatewright"]; !ok || len(c.Config.Volumes) != 1 {
			t.Errorf("volumes = %v, want /var/lib/gatewright", c.Config.Volumes)
		}
	}
	index := contents(t, filepath.Join(o.out, "gatewright"))["index.json"]
	if digest := strings.TrimSpace(strings.SplitN(output, " ", 3)[1]); !strings.Contains(output,
		"gatewright.tar sha256:") || !strings.Contains(index, strings.Split(digest, "\n")[0]) {
		t.Errorf("output = %q, want gatewright.tar with a digest of the index %s", output, index)
	}
	if !strings.Contains(index, `"gatewright:v1.2.3"`) {
		t.Errorf("index = %s, want the name gatewright:v1.2.3", index)
	}
}

// TestOnlyProductHasWeights checks that only the product's image has the weights of the documentation's search.
func TestOnlyProductHasWeights(t *testing.T) {
	o := smallImages(t)
	for _, p := range programs(o.tree, "") {
		files := mutate.Extract(containertest.LayoutImage(t, filepath.Join(o.out, p.name), "arm64"))
		var got string
		for r := tar.NewReader(files); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if h.Name == minilm.FileName {
				text, err := io.ReadAll(r)
				if err != nil {
					t.Fatal(err)
				}
				got = string(text)
			}
		}
		if err := files.Close(); err != nil {
			t.Fatal(err)
		}
		want := ""
		if p.name == "gatewright" {
			want = "weights"
		}
		if got != want {
			t.Errorf("%s of the image %s = %q, want %q", minilm.FileName, p.name, got, want)
		}
	}
}

// TestProgramsContainNoTemplates checks that no program can execute a template of text/template or html/template. A
// template looks up methods by name, so the linker keeps the exported methods of all types in such a program. In the
// server, that is 12 MB.
func TestProgramsContainNoTemplates(t *testing.T) {
	if _, err := product(); err != nil {
		t.Fatal(err)
	}
	folder, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	client := filepath.Join(folder, "gatewright")
	if err := gobuild.Build(t.Context(), repository, gobuild.Client, client); err != nil {
		t.Fatal(err)
	}
	binaries := filepath.Join(folder, "binaries", runtime.GOARCH)
	files := []string{client, filepath.Join(binaries, serverBinary)}
	for _, s := range functions.Services() {
		files = append(files, filepath.Join(binaries, s.Name, "container"))
	}
	// The table of functions is in stripped programs too.
	const executes, always = "text/template.(*state).evalField\x00", "runtime.main\x00"
	for _, file := range files {
		program, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(program, []byte(always)) {
			t.Errorf("%s contains %q = false, want true as in every Go program", file, always)
		}
		if bytes.Contains(program, []byte(executes)) {
			t.Errorf("%s contains %q = true, want false: `go build -ldflags=-dumpdep` shows what calls it", file, executes)
		}
	}
}

// TestTarFileEqualsLayout checks that the tar file has the files of the layout, and no owners, times or modes of this
// machine.
func TestTarFileEqualsLayout(t *testing.T) {
	o := smallImages(t)
	raw, err := os.ReadFile(filepath.Join(o.out, "gatewright.tar"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(raw)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" {
			t.Errorf("owner of %s = %d:%d %q, want 0:0 without a name", h.Name, h.Uid, h.Gid, h.Uname)
		}
		if h.ModTime.Unix() > 0 || h.Mode != 0o644 && h.Mode != 0o755 {
			t.Errorf("%s: time = %s, mode = %o, want time 0 and mode 644 or 755", h.Name, h.ModTime, h.Mode)
		}
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			got[filepath.FromSlash(h.Name)] = string(text)
		}
	}
	want := contents(t, filepath.Join(o.out, "gatewright"))
	if !maps.Equal(got, want) || len(want) < 5 {
		t.Errorf("files of the tar file = %v, want those of the layout %v, 5 or more with equal contents",
			slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestBillListsLinkedModules checks that a bill of materials lists the linked modules and the Go standard library.
func TestBillListsLinkedModules(t *testing.T) {
	o := smallImages(t)
	raw, err := os.ReadFile(filepath.Join(o.out, "gatewright-amd64.cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat, SpecVersion, SerialNumber string
		Metadata                             struct {
			Timestamp string
			Component struct{ PURL string }
		}
		Components []struct{ PURL string }
	}
	if err := json.Unmarshal(raw, &bill); err != nil {
		t.Fatal(err)
	}
	if bill.BOMFormat != "CycloneDX" || bill.SerialNumber != "" || bill.Metadata.Timestamp != "" ||
		bill.Metadata.Component.PURL != "pkg:golang/github.com/gatewright/gatewright@v1.2.3" {
		t.Errorf("bill = %s, want CycloneDX of the module v1.2.3 without a serial number and a time",
			raw[:min(len(raw), 800)])
	}
	if bill.SpecVersion != "1.6" {
		t.Errorf("specVersion of the bill = %q, want 1.6, which docs/images.md names", bill.SpecVersion)
	}
	info, err := buildinfo.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B"))
	}
	_ = jsonschema.NewCompiler() // links the copy of the library
	for _, c := range thirdparty.Copies() {
		want = append(want, "pkg:golang/"+c.Module+"@"+c.Version)
	}
	var got []string
	for _, c := range bill.Components {
		got = append(got, c.PURL)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("components of the bill (-want +got):\n%s", diff)
	}
	if len(got) < 3 {
		t.Errorf("components of the bill = %v, want at least 3", got)
	}
}

// TestMissingBinaryIsNamed checks that the error for a missing binary, or for a file that is no Go binary, has its
// path.
func TestMissingBinaryIsNamed(t *testing.T) {
	o := options{binaries: t.TempDir(), out: t.TempDir(), tree: repository, architectures: []string{"arm64"}}
	path := filepath.Join(o.binaries, "arm64", "gatewright-server")
	if err := write(o, io.Discard); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("write() without a binary: error = %v, want one with %s", err, path)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		os.WriteFile(path, []byte("a script"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := write(o, io.Discard); err == nil ||
		!strings.Contains(err.Error(), path+" says of no modules what it is made of") {
		t.Errorf("write() with a script: error = %v, want one with %s and \"says of no modules\"", err, path)
	}
}
