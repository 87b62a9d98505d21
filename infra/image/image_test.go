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

// binary writes a file that stands for a service.
func binary(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "some.container")
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func made(t *testing.T, path string) v1.Image {
	t.Helper()
	i, err := image.Of(path, "arm64")
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

// TestTheSameBinaryIsTheSameImage wherever it lies, whenever it was built, and
// another one is another.
func TestTheSameBinaryIsTheSameImage(t *testing.T) {
	one, again := binary(t, "a service"), binary(t, "a service")
	if err := errors.Join(os.Chtimes(again, time.Unix(1, 0), time.Unix(1, 0)), os.Chmod(again, 0o755)); err != nil {
		t.Fatal(err)
	}
	if a, b := digest(t, made(t, one)), digest(t, made(t, again)); a != b {
		t.Errorf("one binary is the images %s and %s", a, b)
	}
	if a, b := digest(t, made(t, one)), digest(t, made(t, binary(t, "another"))); a == b {
		t.Errorf("two binaries are the image %s", a)
	}
}

// TestImageRunsItsBinaryAsNobody and has nothing else in it.
func TestImageRunsItsBinaryAsNobody(t *testing.T) {
	i := made(t, binary(t, "a service"))
	c, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if c.OS != "linux" || c.Architecture != "arm64" || c.Config.User != "65532:65532" || !cmp.Equal(c.Config.Entrypoint, []string{"/service"}) {
		t.Errorf("its configuration is %+v", c)
	}
	files := map[string]string{}
	all := mutate.Extract(i)
	defer func() { _ = all.Close() }()
	r := tar.NewReader(all)
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
			t.Errorf("%s has the mode %o", h.Name, h.Mode)
		}
	}
	if diff := cmp.Diff(map[string]string{"/service": "a service"}, files); diff != "" {
		t.Error(diff)
	}
}

// TestAFileLiesBesideTheBinary under its own name, and everybody may read it.
func TestAFileLiesBesideTheBinary(t *testing.T) {
	data := filepath.Join(t.TempDir(), "model.weights")
	if err := os.WriteFile(data, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := image.Make(image.Contents{Binary: binary(t, "a service"), Architecture: "arm64", Path: "/service", Beside: data})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	all := mutate.Extract(i)
	defer func() { _ = all.Close() }()
	for r := tar.NewReader(all); ; {
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
	if _, err := image.Make(image.Contents{Binary: binary(t, "a service"), Architecture: "arm64", Path: "/service", Beside: missing}); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Make without the file beside the binary = %v, want an error that names %s", err, missing)
	}
}

// TestVolumesAreTheUsers alone: a new volume is made like the folder that it is mounted over. Those above
// them are nobody's.
func TestVolumesAreTheUsers(t *testing.T) {
	i, err := image.Make(image.Contents{Binary: binary(t, "a service"), Architecture: "arm64", Path: "/usr/bin/service", Volumes: []string{"/var/lib/data", "/var/lib/more"}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	all := mutate.Extract(i)
	defer func() { _ = all.Close() }()
	for r := tar.NewReader(all); ; {
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
		t.Error(diff)
	}
}

func TestMissingBinaryIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "nothing")
	if _, err := image.Of(path, "arm64"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

// TestUploadIsRepeatable, although the registry's tags never change: as those of
// the CDK's repository.
func TestUploadIsRepeatable(t *testing.T) {
	memory := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	manifests := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			manifests[r.URL.Path]++
			if manifests[r.URL.Path] > 1 {
				http.Error(w, `{"errors":[{"code":"TAG_INVALID"}]}`, http.StatusBadRequest)
				return
			}
		}
		memory.ServeHTTP(w, r)
	}))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/assets"
	i := made(t, binary(t, "a service"))
	for _, want := range []bool{true, false} {
		missing, err := image.Upload(t.Context(), i, repository, authn.Anonymous, http.DefaultTransport)
		if err != nil || missing != want {
			t.Errorf("it was missing: %v, want %v; error %v", missing, want, err)
		}
	}
	by, err := name.NewDigest(repository + "@" + digest(t, i))
	if err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(by)
	if err != nil {
		t.Fatal(err)
	}
	if got := digest(t, pulled); got != digest(t, i) {
		t.Errorf("what is pulled is %s", got)
	}
}

// TestRefusedUploadIsTold as it is, and not tried as if the image were missing.
func TestRefusedUploadIsTold(t *testing.T) {
	written := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		written = written || r.Method != http.MethodHead && r.Method != http.MethodGet
		if r.URL.Path != "/v2/" {
			http.Error(w, "", http.StatusForbidden)
		}
	}))
	defer server.Close()
	repository := strings.TrimPrefix(server.URL, "http://") + "/assets"
	_, err := image.Upload(t.Context(), made(t, binary(t, "a service")), repository, authn.Anonymous, http.DefaultTransport)
	if err == nil || !strings.Contains(err.Error(), repository) || written {
		t.Errorf("error %v, written %v", err, written)
	}
}
