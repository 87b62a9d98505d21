package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// nameAnnotation is the annotation with the name of an image in a layout
// (https://specs.opencontainers.org/image-spec/annotations/).
const nameAnnotation = "org.opencontainers.image.ref.name"

// NewIndex combines the images of a program for several architectures under one digest. A container engine chooses the
// image for its machine. The images keep their order.
func NewIndex(labels map[string]string, images ...v1.Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, i := range images {
		c, err := i.ConfigFile()
		if err != nil {
			return nil, fmt.Errorf("read an image's configuration: %w", err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: i, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: c.OS, Architecture: c.Architecture}},
		})
	}
	annotated, ok := mutate.Annotations(index, labels).(v1.ImageIndex)
	if !ok {
		return nil, errors.New("annotate an index: it is none any more")
	}
	return annotated, nil
}

// WriteLayout writes an index as an OCI image layout (https://specs.opencontainers.org/image-spec/image-layout/) to a
// folder, and the same layout as a tar file to folder.tar. name is the name of the image in the layout. WriteLayout
// replaces existing files.
//
// The layout has only this image. With several images, users would have to choose one.
func WriteLayout(folder, name string, index v1.ImageIndex) error {
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("replace an image: %w", err)
	}
	layoutPath, err := layout.Write(folder, empty.Index)
	if err == nil {
		err = layoutPath.AppendIndex(index, layout.WithAnnotations(map[string]string{nameAnnotation: name}))
	}
	if err != nil {
		return fmt.Errorf("write an image into %s: %w", folder, err)
	}
	out, err := os.Create(folder + ".tar") //nolint:gosec // G304: the caller's folder
	if err != nil {
		return fmt.Errorf("write an image's tar file: %w", err)
	}
	if err := errors.Join(archive(out, folder), out.Close()); err != nil {
		return fmt.Errorf("write %s.tar: %w", folder, err)
	}
	return nil
}

// archive writes a tar file of the files in a folder, sorted by name. The result does not depend on the machine: it has
// no times and no owners, and the umask does not change its modes.
func archive(out io.Writer, folder string) error {
	w := tar.NewWriter(out)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: 0o755, Format: tar.FormatPAX})
		}
		raw, err := os.ReadFile(path) //nolint:gosec // G122,G304: files that we have just written
		if err != nil {
			return err
		}
		return errors.Join(w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(raw)),
			Format: tar.FormatPAX,
		}), write(w, raw))
	})
	return errors.Join(err, w.Close())
}
