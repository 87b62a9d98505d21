package containertest

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/gatewright/gatewright/infra/image"
)

// Root is an empty folder for a root, which the container's user may enter: those above are the test's alone.
func Root(t testing.TB) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(root, 0o755); err != nil { //nolint:gosec // G301: for the container's user
		t.Fatal(err)
	}
	for above := filepath.Dir(root); above != os.TempDir() && above != "/"; above = filepath.Dir(above) {
		if err := os.Chmod(above, 0o755); err != nil { //nolint:gosec // G302: as above
			t.Fatal(err)
		}
	}
	return root
}

// Unpack writes the files of an archive as they are in it, but for their owner, who is the test's.
func Unpack(t testing.TB, root string, archive io.Reader) {
	t.Helper()
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(root, filepath.FromSlash(h.Name))
		folder := at
		if h.Typeflag != tar.TypeDir {
			folder = filepath.Dir(at)
		}
		err = os.MkdirAll(folder, 0o755) //nolint:gosec // G301: as in Root
		if err == nil && h.Typeflag != tar.TypeDir {
			var raw []byte
			if raw, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(at, raw, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// OfImage is what an engine runs of a layout's image for this machine's architecture: its entrypoint with its arguments,
// or with those that are given, with its environment and more, over its root and an empty folder for each of its volumes.
func OfImage(t testing.TB, layoutFolder string, env []string, args ...string) Spec {
	t.Helper()
	found := OfLayout(t, layoutFolder, runtime.GOARCH)
	c, err := found.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d:%d", image.User, image.User); c.Config.User != want {
		t.Fatalf("the image's user is %q, not %s", c.Config.User, want)
	}
	s := Spec{Root: Root(t), Volumes: map[string]string{}, Env: slices.Concat(c.Config.Env, env), Args: slices.Concat(c.Config.Entrypoint, c.Config.Cmd)}
	if args != nil {
		s.Args = slices.Concat(c.Config.Entrypoint, args)
	}
	files := mutate.Extract(found)
	defer func() { _ = files.Close() }()
	Unpack(t, s.Root, files)
	for at := range c.Config.Volumes {
		s.Volumes[at] = Folder(t)
	}
	return s
}
