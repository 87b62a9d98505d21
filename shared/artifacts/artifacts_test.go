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

	"github.com/gatewright/gatewright/shared/artifacts"
	"github.com/gatewright/gatewright/shared/blob"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/seal"
)

type rootKey [seal.KeyBytes]byte

func (k *rootKey) Root(context.Context) ([]byte, error) { return k[:], nil }

func open(bucket *blob.Memory, k *rootKey) *artifacts.Store {
	return artifacts.New(bucket, seal.NewSealer(k), seal.NewHasher(k, "artifact"))
}

func artifact(secret string) *project.Artifact {
	return &project.Artifact{
		Format: project.ArtifactFormat, Routes: []project.Route{}, Policies: map[string]project.Policy{},
		Variables: map[string]string{"SECRET": secret},
	}
}

func TestArtifactIsSealedAndComesBack(t *testing.T) {
	bucket := blob.NewMemory(time.Now)
	s := open(bucket, &rootKey{1})
	name, err := s.Put(t.Context(), "hello-main-0a1b2c3", artifact("the secret"))
	if err != nil || !strings.HasPrefix(name, "hello-main-0a1b2c3/") {
		t.Fatalf("name %q, error %v", name, err)
	}
	r, _, err := bucket.Get(t.Context(), blob.ArtifactKey(name), "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := io.ReadAll(r)
	if err != nil || bytes.Contains(stored, []byte("secret")) || bytes.Contains(stored, []byte("format")) {
		t.Errorf("stored %q, error %v", stored, err)
	}
	a, err := s.Get(t.Context(), name)
	if err != nil || a.Variables["SECRET"] != "the secret" {
		t.Errorf("artifact %+v, error %v", a, err)
	}
}

func TestNameFollowsTheContentAndHidesIt(t *testing.T) {
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
	if again := put(&rootKey{1}, "a", "x"); again != one {
		t.Errorf("the same content is called %s and %s", one, again)
	}
	for what, other := range map[string]string{
		"another content":    put(&rootKey{1}, "a", "y"),
		"another deployment": put(&rootKey{1}, "b", "x"),
		"another root key":   put(&rootKey{2}, "a", "x"),
	} {
		if other == one {
			t.Errorf("%s has the same name", what)
		}
	}
}

func TestUnreadableArtifactsAreErrors(t *testing.T) {
	bucket := blob.NewMemory(time.Now)
	s := open(bucket, &rootKey{1})
	if _, err := s.Get(t.Context(), "a/none"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("an absent one: %v", err)
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
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, format := range []int{project.OldestFormat - 1, project.ArtifactFormat + 1} {
		_, err := s.Get(t.Context(), fmt.Sprintf("a/gone.%d", format))
		if format, ok := errors.AsType[*project.FormatError](err); !ok || !errors.Is(err, project.ErrFormat) || format.Newer() != (format.Format > project.ArtifactFormat) {
			t.Errorf("another format: %v", err)
		}
	}
	if _, err := s.Get(t.Context(), "a/gone.x"); !errors.Is(err, project.ErrFormat) {
		t.Errorf("no format: %v", err)
	}
}

// TestArtifactIsReadInEachFormatThatIsWritten, and its name tells which that is.
func TestArtifactIsReadInEachFormatThatIsWritten(t *testing.T) {
	s := open(blob.NewMemory(time.Now), &rootKey{})
	names := map[string]bool{}
	for format := project.OldestFormat; format <= project.ArtifactFormat; format++ {
		name, err := s.Writing(format).Put(t.Context(), "shop-main-1234567", artifact("x"))
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Get(t.Context(), name)
		if err != nil || got.Format != project.ArtifactFormat || !reflect.DeepEqual(got.Routes, artifact("x").Routes) {
			t.Errorf("format %d: %+v, %v", format, got, err)
		}
		if artifacts.FormatOf(name) != format || names[name] {
			t.Errorf("format %d has the name %s", format, name)
		}
		names[name] = true
	}
	if s.Written() != project.WrittenFormat {
		t.Errorf("builds write format %d", s.Written())
	}
}
