package image_test

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/gatewright/gatewright/infra/image"
)

// binary writes a file that stands in for the binary of a service, and returns its path.
func binary(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some.container")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func newImage(t *testing.T, path string) v1.Image {
	t.Helper()
	i, err := image.FromBinary(path, "arm64")
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func digest(t *testing.T, i v1.Image) string {
	t.Helper()
	d, err := i.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d.String()
}

// TestImageIsDeterministic checks that the digest of an image does not depend on the path, the time and the mode of the
// binary, and that another binary has another digest.
func TestImageIsDeterministic(t *testing.T) {
	first, second := binary(t, "a service"), binary(t, "a service")
	if err := errors.Join(os.Chtimes(second, time.Unix(1, 0), time.Unix(1, 0)), os.Chmod(second, 0o755)); err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, newImage(t, first)), digest(t, newImage(t, second)); a != b {
		t.Errorf("digests of images of the same binary = %s and %s, want equal ones", a, b)
	}
	if a, b := digest(t, newImage(t, first)), digest(t, newImage(t, binary(t, "another"))); a == b {
		t.Errorf("digests of images of two binaries = %s and %s, want different ones", a, b)
	}
}

// TestImageRunsItsBinaryAsNobody checks that an image runs its binary as an unprivileged user, and has no other
// content.
func TestImageRunsItsBinaryAsNobody(t *testing.T) {
	i := newImage(t, binary(t, "a service"))
	c, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.OS != "linux" || c.Architecture != "arm64" || c.Config.User != "65532:65532" ||
		!cmp.Equal(c.Config.Entrypoint, []string{"/service"}) {
		t.Errorf("configuration of the image = %+v, want linux, arm64, the user 65532:65532 and the entrypoint /service", c)
	}
	files := map[string]string{}
	extracted := mutate.Extract(i)
	defer func() { _ = extracted.Close() }()
	r := tar.NewReader(extracted)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files["/"+h.Name] = string(raw)
		if h.Mode&0o111 != 0o111 || h.Mode&0o222 != 0 {
			t.Errorf("mode of %s = %o, want it executable and not writable", h.Name, h.Mode)
		}
	}
	if diff := cmp.Diff(map[string]string{"/service": "a service"}, files); diff != "" {
		t.Errorf("files of the image (-want +got):\n%s", diff)
	}
}

// TestDataFileIsNextToTheBinary checks the path of the additional file in the image, and that every user can read it.
// The error for a missing file has its path.
func TestDataFileIsNextToTheBinary(t *testing.T) {
	data := filepath.Join(t.TempDir(), "model.weights")
	if err := os.WriteFile(data, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := image.New(image.Contents{
		Binary: binary(t, "a service"), Architecture: "arm64", Path: "/service",
		DataFile: data,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	extracted := mutate.Extract(i)
	defer func() { _ = extracted.Close() }()
	for r := tar.NewReader(extracted); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		got[h.Name] = fmt.Sprintf("%o %s", h.Mode, text)
	}
	if diff := cmp.Diff(map[string]string{"service": "555 a service", "model.weights": "444 weights"}, got); diff != "" {
		t.Errorf("the files of the image (-want +got):\n%s", diff)
	}
	missing := filepath.Join(t.TempDir(), "missing.weights")
	if _, err := image.New(image.Contents{
		Binary: binary(t, "a service"), Architecture: "arm64", Path: "/service",
		DataFile: missing,
	}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("New(missing data file) error = %v, want one with %s", err, missing)
	}
}

// TestVolumesBelongToTheUser checks the owner and the mode of the folders of volumes, because a new volume gets those
// of the folder over which it is mounted. The parent folders do not belong to the user.
func TestVolumesBelongToTheUser(t *testing.T) {
	i, err := image.New(image.Contents{
		Binary: binary(t, "a service"), Architecture: "arm64", Path: "/usr/bin/service",
		Volumes: []string{"/var/lib/data", "/var/lib/more"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	extracted := mutate.Extract(i)
	defer func() { _ = extracted.Close() }()
	for r := tar.NewReader(extracted); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %o %d:%d", strings.TrimSuffix(h.Name, "/"), h.Mode, h.Uid, h.Gid))
	}
	want := []string{
		"usr 555 0:0", "usr/bin 555 0:0", "var 555 0:0", "var/lib 555 0:0",
		"var/lib/data 700 65532:65532", "var/lib/more 700 65532:65532", "usr/bin/service 555 0:0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the entries of the image, with mode and owner (-want +got):\n%s", diff)
	}
}

// TestMissingBinaryIsNamed checks that the error for a missing binary has its path.
func TestMissingBinaryIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nothing")
	if _, err := image.FromBinary(path, "arm64"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("FromBinary(%s) error = %v, want one with the path", path, err)
	}
}

// TestUploadIsRepeatable checks that a second Upload of an image writes nothing. The registry refuses to overwrite
// tags, like the CDK's repository.
func TestUploadIsRepeatable(t *testing.T) {
	memory := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	var mu sync.Mutex // guards writes and puts, because Upload sends several requests at the same time
	writes, puts := 0, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			writes++
		}
		if r.Method == http.MethodPut {
			puts[r.URL.Path]++
		}
		refused := r.Method == http.MethodPut && puts[r.URL.Path] > 1
		mu.Unlock()
		if refused {
			http.Error(w, `{"errors":[{"code":"TAG_INVALID"}]}`, http.StatusBadRequest)
			return
		}
		memory.ServeHTTP(w, r)
	}))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/assets"
	i := newImage(t, binary(t, "a service"))
	for _, want := range []bool{true, false} {
		missing, err := image.Upload(t.Context(), i, repository, authn.Anonymous, http.DefaultTransport)
		if err != nil || missing != want {
			t.Errorf("Upload() = missing %v, error %v, want missing %v and no error", missing, err, want)
		}
		mu.Lock()
		if (writes > 0) != want {
			t.Errorf("Upload() sends %d requests that write, want any: %v", writes, want)
		}
		writes = 0
		mu.Unlock()
	}
	ref, err := name.NewDigest(repository + "@" + digest(t, i))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if got := digest(t, pulled); got != digest(t, i) {
		t.Errorf("digest of the pulled image = %s, want %s", got, digest(t, i))
	}
}

// TestRefusedUploadReturnsAnError checks that Upload returns an error if the registry refuses to say whether the image
// exists, and uploads nothing.
func TestRefusedUploadReturnsAnError(t *testing.T) {
	written := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written = written || r.Method != http.MethodHead && r.Method != http.MethodGet
		if r.URL.Path != "/v2/" {
			http.Error(w, "", http.StatusForbidden)
		}
	}))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/assets"
	_, err := image.Upload(t.Context(), newImage(t, binary(t, "a service")), repository, authn.Anonymous,
		http.DefaultTransport)
	if err == nil || !strings.Contains(err.Error(), repository) || written {
		t.Errorf("Upload() error = %v, wrote to the repository: %v, want an error with %s and no write", err,
			written, repository)
	}
}
