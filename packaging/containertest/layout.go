package containertest

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// LayoutImage returns the image for an architecture from an OCI image layout with one index.
func LayoutImage(t testing.TB, folder, architecture string) v1.Image {
	t.Helper()
	layoutIndex, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	m, err := layoutIndex.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Manifests) != 1 {
		t.Fatalf("%s has %d images, want 1: with several images, a container engine asks the user to choose one",
			folder, len(m.Manifests))
	}
	index, err := layoutIndex.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = index.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Manifests {
		if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == architecture {
			i, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return i
		}
	}
	t.Fatalf("%s has no image for %s, want one", folder, architecture)
	return nil
}
