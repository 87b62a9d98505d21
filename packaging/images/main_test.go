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
	"github.com/gatewright/gatewright/internal/gobuild"
	"github.com/gatewright/gatewright/packaging/containertest"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/thirdparty"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// shared returns a folder for what several tests use. TestMain removes it.
var shared = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "gatewright-images-") })

func TestMain(m *testing.M) {
	containertest.Main(m, func() {
		if folder, err := shared(); err == nil {
			_ = os.RemoveAll(folder)
		}
	})
}

// product returns the folder with the images of the product and of the services for this machine's architecture. They are
// built from this checkout, once for all tests.
var product = sync.OnceValues(func() (string, error) {
	folder, err := shared()
	if err != nil {
		return "", err
	}
	packages := map[string]string{server: "./cmd/gatewright-server"}
	for _, s := range functions.Services() {
		packages[filepath.Join(s.Name, "container")] = "./functions/" + s.Name + "/container"
	}
	o := productOptions(repository, filepath.Join(folder, "binaries"), filepath.Join(folder, "product"))
	for binary, pkg := range packages {
		if err := gobuild.BuildFor(context.Background(), "linux", runtime.GOARCH, repository, pkg, filepath.Join(o.binaries, runtime.GOARCH, binary)); err != nil {
			return "", err
		}
	}
	return o.out, write(o, io.Discard)
})

// repository is the checkout's folder.
const repository = "../.."

// productOptions returns the options for images of binaries for this machine's architecture.
func productOptions(tree, binaries, out string) options {
	return options{tree: tree, binaries: binaries, out: out, version: "v1.2.3", revision: "0123", command: "serve", architectures: []string{runtime.GOARCH}}
}

// TestTwoCheckoutsMakeTheSameImages byte for byte: this one, whose programs the go command builds, and one in a folder of another name, with
// other modes of files, whose programs make builds.
func TestTwoCheckoutsMakeTheSameImages(t *testing.T) {
	here, err := product()
	if err != nil {
		t.Fatal(err)
	}
	tree := filepath.Join(t.TempDir(), "another", "and-deeper")
	checkout(t, tree)
	binaries := filepath.Join("dist", runtime.GOARCH)
	targets := []string{filepath.Join(binaries, server)}
	for _, s := range functions.Services() {
		targets = append(targets, filepath.Join(binaries, s.Name, "container"))
	}
	cmd := exec.Command("make", targets...)
	cmd.Dir, cmd.Env = tree, append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := productOptions(tree, filepath.Join(tree, "dist"), filepath.Join(tree, "dist", "images"))
	if err := write(o, io.Discard); err != nil {
		t.Fatal(err)
	}
	one, another := contents(t, here), contents(t, o.out)
	if least := 4 * len(programs(repository, "")); len(one) < least {
		t.Fatalf("the images have %d files, want at least %d", len(one), least)
	}
	for name, text := range one {
		if another[name] != text {
			t.Errorf("%s differs", name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(one)), slices.Sorted(maps.Keys(another))); diff != "" {
		t.Error(diff)
	}
}

// checkout copies the files of the tree that are, or will be, committed.
func checkout(t *testing.T, to string) {
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
			continue // removed, and not committed yet
		}
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755), os.WriteFile(filepath.Join(to, name), raw, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// contents are the files below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		all[name] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// madeSmall is images, and what write printed about them.
type madeSmall struct {
	options

	printed string
}

// small returns images that are made of this test's binary for both architectures, once for all tests: making them takes longer than
// looking at them.
var small = sync.OnceValues(func() (madeSmall, error) {
	folder, err := shared()
	if err != nil {
		return madeSmall{}, err
	}
	in := func(name string) string { return filepath.Join(folder, "small", name) }
	o := options{
		tree: in("tree"), binaries: in("binaries"), out: in("images"), version: "v1.2.3", revision: "0123", command: "serve",
		architectures: []string{"amd64", "arm64"},
	}
	own, err := os.ReadFile(os.Args[0])
	if err != nil {
		return madeSmall{}, err
	}
	files := map[string][]byte{filepath.Join(o.tree, "shared", "docsearch", "minilm", minilm.FileName): []byte("weights")}
	for _, architecture := range o.architectures {
		for _, p := range programs(o.tree, "") {
			files[filepath.Join(o.binaries, architecture, p.binary)] = append(slices.Clone(own), architecture...)
		}
	}
	for path, body := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, body, 0o755)); err != nil {
			return madeSmall{}, err
		}
	}
	var printed strings.Builder
	err = write(o, &printed)
	return madeSmall{o, printed.String()}, err
})

// smallImages is small for a test.
func smallImages(t *testing.T) madeSmall {
	t.Helper()
	made, err := small()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// TestImageSaysWhatItIs to an engine, of which each needs its own architecture's, and to a person.
func TestImageSaysWhatItIs(t *testing.T) {
	o := smallImages(t)
	told := o.printed
	for _, architecture := range o.architectures {
		i := containertest.OfLayout(t, filepath.Join(o.out, "gatewright"), architecture)
		c, err := i.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			"org.opencontainers.image.title": "The whole product on one machine.", "org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":  "https://github.com/gatewright/gatewright",
			"org.opencontainers.image.version": "v1.2.3", "org.opencontainers.image.revision": "0123",
		}
		if diff := cmp.Diff(want, c.Config.Labels); diff != "" {
			t.Error(diff)
		}
		if c.Architecture != architecture || c.Config.User != "65532:65532" || !slices.Equal(c.Config.Entrypoint, []string{"/gatewright-server"}) || !slices.Equal(c.Config.Cmd, []string{"serve"}) {
			t.Errorf("its configuration is %+v", c)
		}
		if diff := cmp.Diff([]string{"GATEWRIGHT_DATA_DIR=/var/lib/gatewright", "TMPDIR=/var/lib/gatewright"}, c.Config.Env); diff != "" {
			t.Error(diff)
		}
		if _, declared := c.Config.Volumes["/var/lib/gatewright"]; !declared || len(c.Config.Volumes) != 1 {
			t.Errorf("its volumes are %v", c.Config.Volumes)
		}
	}
	index := contents(t, filepath.Join(o.out, "gatewright"))["index.json"]
	if digest := strings.TrimSpace(strings.SplitN(told, " ", 3)[1]); !strings.Contains(told, "gatewright.tar sha256:") || !strings.Contains(index, strings.Split(digest, "\n")[0]) {
		t.Errorf("it tells %q of %s", told, index)
	}
	if !strings.Contains(index, `"gatewright:v1.2.3"`) {
		t.Errorf("an engine cannot name it by %s", index)
	}
}

// TestTheProductAloneHasTheWeights with which it searches the documentation, beside its binary.
func TestTheProductAloneHasTheWeights(t *testing.T) {
	o := smallImages(t)
	for _, p := range programs(o.tree, "") {
		all := mutate.Extract(containertest.OfLayout(t, filepath.Join(o.out, p.name), "arm64"))
		var got string
		for r := tar.NewReader(all); ; {
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
		if err := all.Close(); err != nil {
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

// TestTarFileIsTheLayout and has nothing of this machine in it.
func TestTarFileIsTheLayout(t *testing.T) {
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
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "" || h.ModTime.Unix() > 0 || h.Mode != 0o644 && h.Mode != 0o755 {
			t.Errorf("%s has an owner, a time or a mode of its own: %+v", h.Name, h)
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
		t.Errorf("the tar file has %v, the layout %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// TestBillHasEveryModuleThatWasLinked, Go's own library among them.
func TestBillHasEveryModuleThatWasLinked(t *testing.T) {
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
	if bill.BOMFormat != "CycloneDX" || bill.SerialNumber != "" || bill.Metadata.Timestamp != "" || bill.Metadata.Component.PURL != "pkg:golang/github.com/gatewright/gatewright@v1.2.3" {
		t.Errorf("the bill is %s", raw[:min(len(raw), 800)])
	}
	if bill.SpecVersion != "1.6" {
		t.Errorf("Bill() specVersion = %q, want 1.6, which docs/images.md names", bill.SpecVersion)
	}
	info, err := buildinfo.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+strings.ReplaceAll(m.Version, "+", "%2B"))
	}
	_ = jsonschema.NewCompiler() // links the copy
	for _, c := range thirdparty.Copies() {
		want = append(want, "pkg:golang/"+c.Module+"@"+c.Version)
	}
	var got []string
	for _, c := range bill.Components {
		got = append(got, c.PURL)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 3 {
		t.Error(diff)
	}
}

// TestWhatIsNotBuiltIsNamed with its path.
func TestWhatIsNotBuiltIsNamed(t *testing.T) {
	o := options{binaries: t.TempDir(), out: t.TempDir(), tree: repository, architectures: []string{"arm64"}}
	path := filepath.Join(o.binaries, "arm64", "gatewright-server")
	if err := write(o, io.Discard); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("a script"), 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := write(o, io.Discard); err == nil || !strings.Contains(err.Error(), path+" says of no modules what it is made of") {
		t.Errorf("error %v", err)
	}
}
