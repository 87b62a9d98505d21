package artifacts_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/artifacts"
	"github.com/gatewright/gatewright/shared/core/blob"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/format/project"
)

type rootKey [seal.KeyBytes]byte

func (k *rootKey) Root(context.Context) ([]byte, error) { return k[:], nil }

func open(bucket *blob.Memory, k *rootKey) *artifacts.Store {
	return artifacts.New(bucket, seal.NewSealer(k), seal.NewHasher(k, "artifact"))
}

// artifact returns an artifact with a variable that has the value secret.
func artifact(secret string) *project.Artifact {
	return &project.Artifact{
		Format: project.ArtifactFormat, Routes: []project.Route{}, Policies: map[string]project.Policy{},
		Variables: map[string]string{"SECRET": secret},
	}
}

func TestArtifactRoundTrip(t *testing.T) {
	bucket := blob.NewMemory(time.Now)
	s := open(bucket, &rootKey{1})
	name, err := s.Put(t.Context(), "hello-main-0a1b2c3", artifact("the secret"))
	if err != nil || !strings.HasPrefix(name, "hello-main-0a1b2c3/") {
		t.Fatalf("Put() = %q, %v, want a name that begins with hello-main-0a1b2c3/", name, err)
	}
	r, _, err := bucket.Get(t.Context(), blob.ArtifactKey(name), "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := io.ReadAll(r)
	if err != nil || bytes.Contains(stored, []byte("secret")) || bytes.Contains(stored, []byte("format")) {
		t.Errorf("stored object = %q, %v, want neither \"secret\" nor \"format\" in it", stored, err)
	}
	a, err := s.Get(t.Context(), name)
	if err != nil || a.Variables["SECRET"] != "the secret" {
		t.Errorf("Get() = %+v, %v, want the variable SECRET with the value %q", a, err, "the secret")
	}
}

func TestNameIsKeyedHashOfContent(t *testing.T) {
	bucket := blob.NewMemory(time.Now)
	put := func(k *rootKey, deployment, secret string) string {
		t.Helper()
		name, err := open(bucket, k).Put(t.Context(), deployment, artifact(secret))
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	one := put(&rootKey{1}, "a", "x")
	if repeated := put(&rootKey{1}, "a", "x"); repeated != one {
		t.Errorf("Put() of the same content = %s, want %s", repeated, one)
	}
	for change, other := range map[string]string{
		"another content":    put(&rootKey{1}, "a", "y"),
		"another deployment": put(&rootKey{1}, "b", "x"),
		"another root key":   put(&rootKey{2}, "a", "x"),
	} {
		if other == one {
			t.Errorf("Put() with %s = %s, want another name than %s", change, other, one)
		}
	}
}

func TestUnreadableArtifactReturnsError(t *testing.T) {
	bucket := blob.NewMemory(time.Now)
	s := open(bucket, &rootKey{1})
	if _, err := s.Get(t.Context(), "a/none"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Get(a/none) = %v, want %v", err, blob.ErrNotFound)
	}
	one, err := s.Put(t.Context(), "a", artifact("x"))
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := bucket.Get(t.Context(), blob.ArtifactKey(one), "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	bucket.Upload(blob.ArtifactKey("a/moved"), sealed)
	bucket.Upload(blob.ArtifactKey("a/cut"), sealed[:20])
	for _, name := range []string{"a/moved", "a/cut"} {
		if _, err := s.Get(t.Context(), name); !errors.Is(err, seal.ErrSealed) {
			t.Errorf("Get(%s) = %v, want %v", name, err, seal.ErrSealed)
		}
	}
	for _, format := range []int{project.OldestFormat - 1, project.ArtifactFormat + 1} {
		name := fmt.Sprintf("a/gone.%d", format)
		_, err := s.Get(t.Context(), name)
		if formatErr, ok := errors.AsType[*project.FormatError](err); !ok || !errors.Is(err, project.ErrFormat) {
			t.Errorf("Get(%s) = %v, want a FormatError that is %v", name, err, project.ErrFormat)
		} else if formatErr.IsNewer() != (formatErr.Format > project.ArtifactFormat) {
			t.Errorf("Get(%s): IsNewer() of the error for format %d = %t, want true only above %d",
				name, formatErr.Format, formatErr.IsNewer(), project.ArtifactFormat)
		}
	}
	if _, err := s.Get(t.Context(), "a/gone.x"); !errors.Is(err, project.ErrFormat) {
		t.Errorf("Get(a/gone.x) = %v, want %v", err, project.ErrFormat)
	}
}

// TestArtifactFormats checks that this release reads artifacts of each format that it
// supports, and that FormatOf returns an artifact's format from its name. By default, a Store writes WrittenFormat.
func TestArtifactFormats(t *testing.T) {
	s := open(blob.NewMemory(time.Now), &rootKey{})
	names := map[string]bool{}
	for format := project.OldestFormat; format <= project.ArtifactFormat; format++ {
		name, err := s.WithFormat(format).Put(t.Context(), "shop-main-1234567", artifact("x"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), name)
		if err != nil || got.Format != project.ArtifactFormat || !reflect.DeepEqual(got.Routes, artifact("x").Routes) {
			t.Errorf("Get() of format %d = %+v, %v, want format %d and the same routes",
				format, got, err, project.ArtifactFormat)
		}
		if artifacts.FormatOf(name) != format || names[name] {
			t.Errorf("FormatOf(%s) = %d, want %d, and a name that no other format has", name, artifacts.FormatOf(name), format)
		}
		names[name] = true
	}
	if s.Format() != project.WrittenFormat {
		t.Errorf("Format() of a new Store = %d, want %d", s.Format(), project.WrittenFormat)
	}
}
