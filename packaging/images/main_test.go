package main

import (
	"archive/tar"
	"bytes"
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
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/packaging/containertest"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/thirdparty"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// TestTwoCheckoutsMakeTheSameImages byte for byte, in folders of other names and of another umask.
func TestTwoCheckoutsMakeTheSameImages(t *testing.T) {
	var all []map[string]string
	for _, name := range []string{"one", "another/and-deeper"} {
		tree := filepath.Join(t.TempDir(), name)
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
		o := options{
			binaries: filepath.Join(tree, "dist"), out: filepath.Join(tree, "dist", "images"), version: "v1.2.3", revision: "0123",
			tree: tree, command: "serve", architectures: []string{runtime.GOARCH},
		}
		if err := write(o, io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(o.out, "gatewright", "index.json"), 0o600); err != nil {
			t.Fatal(err)
		}
		all = append(all, contents(t, o.out))
	}
	if len(all[0]) < 4*len(programs("../..", "")) {
		t.Fatalf("there are %d files alone", len(all[0]))
	}
	for name, text := range all[0] {
		if all[1][name] != text {
			t.Errorf("%s differs", name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(all[0])), slices.Sorted(maps.Keys(all[1]))); diff != "" {
		t.Error(diff)
	}
}

// checkout copies the files of the tree that are, or will be, committed.
func checkout(t *testing.T, to string) {
	t.Helper()
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		raw, err := os.ReadFile(filepath.Join("../..", name))
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

// small writes a little program's binaries for both architectures, as if they were all that images are made
// of, and makes the images.
func small(t *testing.T, o options) (options, string) {
	t.Helper()
	own, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	o.tree = t.TempDir()
	weights := filepath.Join(o.tree, "shared", "docsearch", "minilm", minilm.FileName)
	if err := errors.Join(os.MkdirAll(filepath.Dir(weights), 0o755), os.WriteFile(weights, []byte("weights"), 0o600)); err != nil {
		t.Fatal(err)
	}
	o.binaries, o.out, o.architectures = t.TempDir(), filepath.Join(t.TempDir(), "images"), []string{"amd64", "arm64"}
	for _, architecture := range o.architectures {
		for _, p := range programs("../..", "") {
			path := filepath.Join(o.binaries, architecture, p.binary)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, append(own, architecture...), 0o755)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var told strings.Builder
	if err := write(o, &told); err != nil {
		t.Fatal(err)
	}
	return o, told.String()
}

// TestImageSaysWhatItIs to an engine, of which each needs its own architecture's, and to a person.
func TestImageSaysWhatItIs(t *testing.T) {
	o, told := small(t, options{version: "v1.2.3", revision: "0123", command: "serve"})
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
	o, _ := small(t, options{})
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
	o, _ := small(t, options{})
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
	o, _ := small(t, options{version: "v1.2.3"})
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
	o := options{binaries: t.TempDir(), out: t.TempDir(), tree: "../..", architectures: []string{"arm64"}}
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
