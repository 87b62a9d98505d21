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

// NewRoot creates an empty folder for a root file system. It changes the modes of its parent folders so that the
// container's user can enter it.
func NewRoot(t testing.TB) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	if err := os.MkdirAll(root, 0o755); err != nil { //nolint:gosec // G301: for the container's user
		t.Fatal(err)
	}
	for parent := filepath.Dir(root); parent != os.TempDir() && parent != "/"; parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil { //nolint:gosec // G302: as above
			t.Fatal(err)
		}
	}
	return root
}

// Unpack writes the files of a tar archive to root, with their content and mode. They belong to the test's user, and
// folders have the mode 755. Unpack does not support links.
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
		path := filepath.Join(root, filepath.FromSlash(h.Name))
		folder := path
		if h.Typeflag != tar.TypeDir {
			folder = filepath.Dir(path)
		}
		err = os.MkdirAll(folder, 0o755) //nolint:gosec // G301: as in NewRoot
		if err == nil && h.Typeflag != tar.TypeDir {
			var raw []byte
			if raw, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(path, raw, h.FileInfo().Mode())
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// ImageSpec returns the Spec with which an engine runs an image of a layout on this machine's architecture. The Spec
// has the image's entrypoint with args, or with the image's own arguments if there are no args. It also has the image's
// environment and env, the image's root, and an empty folder for each volume of the image.
func ImageSpec(t testing.TB, layoutFolder string, env []string, args ...string) Spec {
	t.Helper()
	img := LayoutImage(t, layoutFolder, runtime.GOARCH)
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d:%d", image.UserID, image.UserID); c.Config.User != want {
		t.Fatalf("user of the image = %q, want %s", c.Config.User, want)
	}
	s := Spec{
		Root: NewRoot(t), Volumes: map[string]string{}, Env: slices.Concat(c.Config.Env, env),
		Args: slices.Concat(c.Config.Entrypoint, c.Config.Cmd),
	}
	if args != nil {
		s.Args = slices.Concat(c.Config.Entrypoint, args)
	}
	files := mutate.Extract(img)
	defer func() { _ = files.Close() }()
	Unpack(t, s.Root, files)
	for path := range c.Config.Volumes {
		s.Volumes[path] = NewVolumeFolder(t)
	}
	return s
}
