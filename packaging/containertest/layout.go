package containertest

import (
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// OfLayout is the image of an architecture in a layout with one index.
func OfLayout(t testing.TB, folder, architecture string) v1.Image {
	t.Helper()
	all, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	m, err := all.IndexManifest()
	if err != nil || len(m.Manifests) != 1 {
		t.Fatalf("the layout has %d images: an engine would ask which one is meant (%v)", len(m.Manifests), err)
	}
	of, err := all.ImageIndex(m.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = of.IndexManifest(); err != nil {
		t.Fatal(err)
	}
	for _, d := range m.Manifests {
		if d.Platform != nil && d.Platform.OS == "linux" && d.Platform.Architecture == architecture {
			i, err := of.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return i
		}
	}
	t.Fatalf("%s has no image for %s", folder, architecture)
	return nil
}
